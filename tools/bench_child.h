// BenchChild: a part of a benchmark in a process of its own, since a memory cgroup
// counts a whole process. It answers commands, one after the other, and ends with
// this object or this process. Commands and results are plain bytes.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace starling {

// The process and the socket to it.
class ChildProcess {
 public:
  // Runs serve(socket) in a child. REQUIRES: this process has no other thread yet.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(
      const std::function<void(int socket)>& serve);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  int socket() const { return socket_; }

  // Whole messages; false if the other side is gone.
  static bool Send(int socket, const void* bytes, size_t size);
  static bool Receive(int socket, void* bytes, size_t size);

 private:
  ChildProcess(pid_t pid, int socket) : pid_(pid), socket_(socket) {}
  const pid_t pid_;
  const int socket_;
};

template <typename Command, typename Result>
class BenchChild {
  static_assert(std::is_trivially_copyable_v<Command> && std::is_trivially_copyable_v<Result>);
  struct Reply {
    int code = 0;  // absl::StatusCode.
    char message[256] = {};
    Result result = {};
  };

 public:
  using Answer = std::function<absl::StatusOr<Result>(const Command&)>;

  // What `answer` holds lives in the child and is destroyed there.
  // REQUIRES: this process has no other thread yet.
  static absl::StatusOr<BenchChild> Start(Answer answer) {
    absl::StatusOr<std::unique_ptr<ChildProcess>> process =
        ChildProcess::Start([&answer](int socket) {
          Command command;
          while (ChildProcess::Receive(socket, &command, sizeof(command))) {
            absl::StatusOr<Result> result = answer(command);
            Reply reply;
            reply.code = static_cast<int>(result.status().code());
            strncpy(reply.message, std::string(result.status().message()).c_str(),
                    sizeof(reply.message) - 1);
            if (result.ok()) reply.result = *result;
            if (!ChildProcess::Send(socket, &reply, sizeof(reply))) break;
          }
          answer = nullptr;
        });
    if (!process.ok()) return process.status();
    BenchChild child;
    child.process_ = *std::move(process);
    return child;
  }

  absl::StatusOr<Result> Ask(const Command& command) const {
    Reply reply;
    if (!ChildProcess::Send(process_->socket(), &command, sizeof(command)) ||
        !ChildProcess::Receive(process_->socket(), &reply, sizeof(reply))) {
      return absl::UnavailableError("the worker process died; out of memory, if it had a limit");
    }
    if (reply.code != 0) {
      return absl::Status(static_cast<absl::StatusCode>(reply.code), reply.message);
    }
    return reply.result;
  }

 private:
  std::unique_ptr<ChildProcess> process_;
};

// A path as a command holds it.
using CommandPath = std::array<char, 256>;
absl::StatusOr<CommandPath> CommandPathOf(const std::string& path);

}  // namespace starling
