// A directory of files that exists as a whole or not at all: the form of
// checkpoints and bundles.
//
// Files are written first; MANIFEST, renamed into place last, makes the set
// exist. It is JSON for people to read, and holds a format version, the
// caller's message, and name, size and CRC32C of every file; its own CRC32C
// stands on its last line. docs/formats.md describes it byte by byte.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace starling {

struct FileSetEntry {
  std::string name;
  int64_t bytes = 0;
  uint32_t crc32c = 0;
};

// Writes `bytes` durably to dir/name and returns its entry for the manifest.
absl::StatusOr<FileSetEntry> WriteSetFile(const std::string& dir, const std::string& name,
                                          absl::string_view bytes);
// The entry of a file that is already durable; reads it once.
absl::StatusOr<FileSetEntry> DescribeSetFile(const std::string& dir, const std::string& name);

// Makes the set exist. `kind` is "checkpoint" or "bundle".
absl::Status CommitFileSet(const std::string& dir, absl::string_view kind,
                           const google::protobuf::Message& message,
                           const std::vector<FileSetEntry>& files);

// Reads the manifest and checks its own checksum, that `kind` fits, and that
// every file is there with its size; not the files' bytes. NotFound if there
// is no manifest; DataLoss, naming the file, if anything is wrong.
absl::StatusOr<std::vector<FileSetEntry>> OpenFileSet(const std::string& dir,
                                                      absl::string_view kind,
                                                      google::protobuf::Message* message);
// CRC32C of the whole manifest, for another set that rests on this one.
absl::StatusOr<uint32_t> ManifestChecksum(const std::string& dir);
// Reads every byte of every file and compares checksums, by so many threads.
absl::Status VerifyFileSet(const std::string& dir, const std::vector<FileSetEntry>& files,
                           int threads = 1);

// Reads dir/name, which must be among `files`, and checks its checksum.
absl::StatusOr<std::string> ReadSetFile(const std::string& dir,
                                        const std::vector<FileSetEntry>& files,
                                        absl::string_view name);

// Names of the sets in `root` that have a manifest, in ascending order.
// An absent root has none.
absl::StatusOr<std::vector<std::string>> ListFileSets(const std::string& root);

}  // namespace starling
