// Entries of a checkpoint's manifest, as calls carry them.
#pragma once

#include <vector>

#include "base/file_set.h"
#include "ps/ps.pb.h"

namespace starling {

inline void ToProto(const std::vector<FileSetEntry>& entries,
                    google::protobuf::RepeatedPtrField<FileEntry>* files) {
  for (const FileSetEntry& entry : entries) {
    FileEntry* file = files->Add();
    file->set_name(entry.name);
    file->set_bytes(entry.bytes);
    file->set_crc32c(entry.crc32c);
  }
}

inline std::vector<FileSetEntry> FromProto(
    const google::protobuf::RepeatedPtrField<FileEntry>& files) {
  std::vector<FileSetEntry> entries;
  for (const FileEntry& file : files) {
    entries.push_back({file.name(), file.bytes(), file.crc32c()});
  }
  return entries;
}

}  // namespace starling
