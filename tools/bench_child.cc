#include "tools/bench_child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace starling {

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::function<void(int socket)>& serve) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return absl::UnavailableError("no socket pair for a worker process");
  }
  const pid_t parent = getpid(), pid = fork();
  if (pid < 0) return absl::UnavailableError("fork of a worker process failed");
  if (pid == 0) {
    close(sockets[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    serve(sockets[1]);
    _exit(0);
  }
  close(sockets[1]);
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid, sockets[0]));
}

ChildProcess::~ChildProcess() {
  shutdown(socket_, SHUT_RDWR);  // A younger child holds a copy of the descriptor.
  close(socket_);
  waitpid(pid_, nullptr, 0);
}

bool ChildProcess::Send(int socket, const void* bytes, size_t size) {
  return send(socket, bytes, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
}

bool ChildProcess::Receive(int socket, void* bytes, size_t size) {
  return recv(socket, bytes, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}

absl::StatusOr<CommandPath> CommandPathOf(const std::string& path) {
  CommandPath bytes = {};
  if (path.size() >= bytes.size()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the path is too long"));
  }
  path.copy(bytes.data(), path.size());
  return bytes;
}

}  // namespace starling
