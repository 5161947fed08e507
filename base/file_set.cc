#include "base/file_set.h"

#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/status.h"
#include "base/sync_point.h"
#include "base/thread_pool.h"
#include "google/protobuf/util/json_util.h"

namespace starling {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kManifest[] = "MANIFEST";
constexpr char kCrcPrefix[] = "crc32c ";
constexpr int kFormatVersion = 1;

absl::Status Corrupt(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": ", what));
}

std::string Hex(uint32_t crc) { return absl::StrFormat("%08x", crc); }

// Splits "<json>\ncrc32c <hex>\n" and checks the checksum of the JSON.
absl::StatusOr<std::string> CheckedJson(const std::string& path, const std::string& text) {
  size_t at = text.rfind(kCrcPrefix);
  uint32_t crc = 0;
  if (at == std::string::npos || text.size() != at + sizeof(kCrcPrefix) - 1 + 8 + 1 ||
      text.back() != '\n' ||
      !absl::SimpleHexAtoi(text.substr(at + sizeof(kCrcPrefix) - 1, 8), &crc)) {
    return Corrupt(path, "the checksum line at its end is missing; the file is cut off or altered");
  }
  std::string body = text.substr(0, at);
  if (Crc32c(body) != crc) return Corrupt(path, "checksum does not match; the file is altered");
  return body;
}

absl::StatusOr<FileSetEntry> EntryOf(const std::string& path, const Json& j) {
  FileSetEntry entry;
  if (!j.is_object() || !j.contains("name") || !j.contains("bytes") || !j.contains("crc32c") ||
      !j["name"].is_string() || !j["bytes"].is_number_integer() || !j["crc32c"].is_string() ||
      !absl::SimpleHexAtoi(j["crc32c"].get<std::string>(), &entry.crc32c)) {
    return Corrupt(path, "an entry of `files` is not {name, bytes, crc32c}");
  }
  entry.name = j["name"];
  entry.bytes = j["bytes"];
  if (entry.name.empty() || entry.name.find('/') != std::string::npos) {
    return Corrupt(path, absl::StrCat("file name \"", entry.name, "\" is not a plain name"));
  }
  return entry;
}

absl::Status CheckPresent(const std::string& dir, const FileSetEntry& entry) {
  std::string path = JoinPath(dir, entry.name);
  struct stat st;
  if (::stat(path.c_str(), &st) != 0)
    return Corrupt(path, "is missing, though the manifest lists it");
  if (st.st_size != entry.bytes) {
    return Corrupt(path,
                   absl::StrCat("has ", st.st_size, " bytes, the manifest says ", entry.bytes));
  }
  return absl::OkStatus();
}

// Of all bytes. Pieces of them are read by the threads as they come.
absl::StatusOr<uint32_t> ChecksumOf(const ReadableFile& file, ThreadPool* pool) {
  constexpr int64_t kPiece = 8 << 20, kRead = 256 << 10;
  const int64_t pieces = (file.size() + kPiece - 1) / kPiece;
  std::vector<uint32_t> checksums(pieces);
  std::vector<absl::Status> statuses(pieces);
  auto end_of = [&](int64_t piece) { return std::min(file.size(), (piece + 1) * kPiece); };
  pool->ParallelFor(static_cast<int>(pieces), [&](int piece) {
    std::vector<char> buffer(kRead);
    for (int64_t at = piece * kPiece; at < end_of(piece) && statuses[piece].ok(); at += kRead) {
      const std::span<char> part(buffer.data(), std::min(kRead, end_of(piece) - at));
      statuses[piece] = file.ReadAt(at, part);
      checksums[piece] = Crc32c({part.data(), part.size()}, checksums[piece]);
    }
  });
  uint32_t joined = 0;
  for (int64_t piece = 0; piece < pieces; ++piece) {
    RETURN_IF_ERROR(statuses[piece]);
    joined = JoinCrc32c(joined, checksums[piece], end_of(piece) - piece * kPiece);
  }
  return joined;
}

}  // namespace

absl::StatusOr<FileSetEntry> WriteSetFile(const std::string& dir, const std::string& name,
                                          absl::string_view bytes) {
  ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, CreateFile(JoinPath(dir, name)));
  RETURN_IF_ERROR(file->Append(bytes));
  RETURN_IF_ERROR(file->Close());
  return FileSetEntry{name, static_cast<int64_t>(bytes.size()), Crc32c(bytes)};
}

absl::StatusOr<FileSetEntry> DescribeSetFile(const std::string& dir, const std::string& name) {
  FileSetEntry entry{name, 0, 0};
  RETURN_IF_ERROR(ReadFileInPieces(JoinPath(dir, name), [&](absl::string_view piece) {
    entry.bytes += piece.size();
    entry.crc32c = Crc32c(piece, entry.crc32c);
  }));
  return entry;
}

absl::Status CommitFileSet(const std::string& dir, absl::string_view kind,
                           const google::protobuf::Message& message,
                           const std::vector<FileSetEntry>& files) {
  std::string body;
  google::protobuf::util::JsonPrintOptions print;
  print.preserve_proto_field_names = true;
  auto converted = google::protobuf::util::MessageToJsonString(message, &body, print);
  if (!converted.ok()) return absl::InternalError(converted.ToString());
  Json manifest;
  manifest["format"] = "starling";
  manifest["version"] = kFormatVersion;
  manifest["kind"] = std::string(kind);
  manifest["info"] = Json::parse(body);
  manifest["files"] = Json::array();
  for (const FileSetEntry& f : files) {
    manifest["files"].push_back({{"name", f.name}, {"bytes", f.bytes}, {"crc32c", Hex(f.crc32c)}});
  }
  std::string text = manifest.dump(1) + "\n";
  absl::StrAppend(&text, kCrcPrefix, Hex(Crc32c(text)), "\n");
  STARLING_SYNC_POINT("file_set:before_manifest");
  RETURN_IF_ERROR(WriteFileAtomically(JoinPath(dir, kManifest), text));
  STARLING_SYNC_POINT("file_set:after_manifest");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<FileSetEntry>> OpenFileSet(const std::string& dir,
                                                      absl::string_view kind,
                                                      google::protobuf::Message* message) {
  std::string path = JoinPath(dir, kManifest);
  ASSIGN_OR_RETURN(std::string text, ReadFile(path));
  ASSIGN_OR_RETURN(std::string body, CheckedJson(path, text));
  Json manifest = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!manifest.is_object() || !manifest["files"].is_array())
    return Corrupt(path, "is not a manifest");
  if (manifest["version"] != kFormatVersion) {
    return Corrupt(path, absl::StrCat("format version ", manifest["version"].dump(),
                                      "; this program reads ", kFormatVersion));
  }
  if (manifest["kind"] != std::string(kind)) {
    return absl::InvalidArgumentError(
        absl::StrCat(dir, ": is a ", manifest["kind"].dump(), ", not a \"", kind, "\""));
  }
  google::protobuf::util::JsonParseOptions parse;
  auto parsed =
      google::protobuf::util::JsonStringToMessage(manifest["info"].dump(), message, parse);
  if (!parsed.ok()) return Corrupt(path, parsed.ToString());
  std::vector<FileSetEntry> files;
  for (const Json& j : manifest["files"]) {
    ASSIGN_OR_RETURN(FileSetEntry entry, EntryOf(path, j));
    RETURN_IF_ERROR(CheckPresent(dir, entry));
    files.push_back(std::move(entry));
  }
  return files;
}

absl::StatusOr<uint32_t> ManifestChecksum(const std::string& dir) {
  ASSIGN_OR_RETURN(std::string text, ReadFile(JoinPath(dir, kManifest)));
  return Crc32c(text);
}

absl::Status VerifyFileSet(const std::string& dir, const std::vector<FileSetEntry>& files,
                           int threads) {
  ThreadPool pool(threads);
  for (const FileSetEntry& f : files) {
    const std::string path = JoinPath(dir, f.name);
    ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, ReadableFile::Open(path));
    ASSIGN_OR_RETURN(const uint32_t crc32c, ChecksumOf(*file, &pool));
    if (file->size() != f.bytes || crc32c != f.crc32c) {
      return Corrupt(path,
                     absl::StrCat("checksum ", Hex(crc32c), ", the manifest says ", Hex(f.crc32c)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadSetFile(const std::string& dir,
                                        const std::vector<FileSetEntry>& files,
                                        absl::string_view name) {
  auto f = std::find_if(files.begin(), files.end(),
                        [&](const FileSetEntry& e) { return e.name == name; });
  if (f == files.end())
    return Corrupt(dir, absl::StrCat("the manifest lists no file \"", name, "\""));
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(JoinPath(dir, f->name)));
  if (static_cast<int64_t>(bytes.size()) != f->bytes || Crc32c(bytes) != f->crc32c) {
    return Corrupt(JoinPath(dir, f->name),
                   "checksum does not match the manifest; the file is altered");
  }
  return bytes;
}

absl::StatusOr<std::vector<std::string>> ListFileSets(const std::string& root) {
  std::vector<std::string> sets;
  if (!PathExists(root)) return sets;
  ASSIGN_OR_RETURN(std::vector<std::string> names, ListDir(root));
  for (const std::string& name : names) {
    if (PathExists(JoinPath(JoinPath(root, name), kManifest))) sets.push_back(name);
  }
  return sets;
}

}  // namespace starling
