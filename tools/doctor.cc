// starling doctor: is this machine fit to run Starling? One line a question.
#include <arpa/inet.h>
#include <arrow/util/config.h>
#include <google/protobuf/stubs/common.h>
#include <netinet/in.h>
#include <rocksdb/version.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status.h"
#include "tools/flags.h"
#include "tools/verbs.h"

namespace starling {
namespace {

enum class Health { kOk, kWarn, kFail };

struct Finding {
  const char* name;
  Health health;
  std::string text;
};

constexpr double kGiB = 1024.0 * 1024 * 1024;

Finding CheckCpu() {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2"), fma = __builtin_cpu_supports("fma");
  return {"cpu features", avx2 && fma ? Health::kOk : Health::kWarn,
          absl::StrFormat("avx2 %s, fma %s%s", avx2 ? "yes" : "no", fma ? "yes" : "no",
                          avx2 && fma ? "" : ": kernels run in their plain x86-64 form, slower")};
}

Finding CheckCores() {
  const unsigned cores = std::thread::hardware_concurrency();
  return {"cores", cores >= 2 ? Health::kOk : Health::kWarn, absl::StrCat(cores)};
}

// The number of KiB behind `key` in /proc/meminfo, or -1.
int64_t MemInfoKib(absl::string_view key) {
  absl::StatusOr<std::string> text = ReadFile("/proc/meminfo");
  if (!text.ok()) return -1;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    int64_t kib = 0;
    if (words.size() >= 2 && words[0] == key && absl::SimpleAtoi(words[1], &kib)) return kib;
  }
  return -1;
}

Finding CheckMemory() {
  const double gib = static_cast<double>(MemInfoKib("MemAvailable:")) * 1024 / kGiB;
  return {"memory", gib >= 2 ? Health::kOk : Health::kWarn,
          absl::StrFormat("%.1f GiB available%s", gib,
                          gib >= 2 ? "" : "; a table's default budget is 1 GiB")};
}

Finding CheckHugePages() {
  absl::StatusOr<std::string> mode = ReadFile("/sys/kernel/mm/transparent_hugepage/enabled");
  const bool on = mode.ok() && mode->find("[never]") == std::string::npos;
  return {"huge pages", on ? Health::kOk : Health::kWarn,
          on ? "transparent huge pages are available"
             : "off: lookups in large tables are slower; see transparent_hugepage/enabled"};
}

Finding CheckDisk() {
  struct statvfs fs;
  if (statvfs(".", &fs) != 0) return {"disk", Health::kFail, "cannot look at this directory"};
  const double gib = static_cast<double>(fs.f_bavail) * fs.f_frsize / kGiB;
  Health health = gib >= 5 ? Health::kOk : gib >= 0.5 ? Health::kWarn : Health::kFail;
  return {"disk", health, absl::StrFormat("%.1f GiB free here", gib)};
}

Finding CheckWrite() {
  const std::string path = absl::StrCat("./.starling-doctor-", getpid());
  auto start = std::chrono::steady_clock::now();
  absl::Status status = WriteFileAtomically(path, std::string(1 << 20, 'x'));
  double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  absl::StatusOr<std::string> back = ReadFile(path);
  RemoveAll(path).IgnoreError();
  if (!status.ok()) return {"write", Health::kFail, std::string(status.message())};
  if (!back.ok() || back->size() != 1 << 20) {
    return {"write", Health::kFail, "what was written here does not read back"};
  }
  return {"write", ms < 1000 ? Health::kOk : Health::kWarn,
          absl::StrFormat("1 MiB written, synced and renamed here in %.1f ms", ms)};
}

// Binds a loopback port and connects to it.
Finding CheckLoopback() {
  auto fail = [](const char* what) { return Finding{"loopback", Health::kFail, what}; };
  int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  Finding finding{"loopback", Health::kOk, "a TCP connection to 127.0.0.1 works"};
  if (server < 0 || client < 0) {
    finding = fail("no socket can be made");
  } else if (bind(server, raw, size) != 0 || listen(server, 1) != 0 ||
             getsockname(server, raw, &size) != 0) {
    finding = fail("cannot listen on 127.0.0.1");
  } else if (connect(client, raw, size) != 0) {
    finding = fail("cannot connect to 127.0.0.1");
  }
  if (server >= 0) close(server);
  if (client >= 0) close(client);
  return finding;
}

Finding CheckLibraries() {
  return {"libraries", Health::kOk,
          absl::StrFormat("Arrow %s, RocksDB %d.%d.%d, protobuf %s", ARROW_VERSION_STRING,
                          ROCKSDB_MAJOR, ROCKSDB_MINOR, ROCKSDB_PATCH,
                          google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION))};
}

const char* Word(Health health) {
  return health == Health::kOk ? "ok" : health == Health::kWarn ? "warn" : "fail";
}

absl::Status RunDoctor(const VerbCall&) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  int failed = 0;
  for (const Finding& f : {CheckCpu(), CheckCores(), CheckMemory(), CheckHugePages(), CheckDisk(),
                           CheckWrite(), CheckLoopback(), CheckLibraries()}) {
    failed += f.health == Health::kFail;
    out.push_back({{"check", f.name}, {"health", Word(f.health)}, {"text", f.text}});
    if (!FLAGS_json) std::printf("%-5s %-13s %s\n", Word(f.health), f.name, f.text.c_str());
  }
  if (FLAGS_json) std::printf("%s\n", out.dump().c_str());
  if (failed == 0) return absl::OkStatus();
  return absl::UnknownError(absl::StrCat(failed, " of ", out.size(), " checks failed"));
}

}  // namespace

Verb DoctorVerb() {
  return {"doctor",
          "Check that this machine can run Starling",
          "starling doctor [--json]",
          {"json"},
          RunDoctor};
}

}  // namespace starling
