#ifndef ACCEL_CORE_TRACKING_APPEND_FILE_H_
#define ACCEL_CORE_TRACKING_APPEND_FILE_H_

#include <sys/types.h>

#include <filesystem>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace accel::tracking {

// An existing file of whole records that grows at its end. Holds no descriptor between calls. Used
// by one thread.
class AppendFile {
 public:
  // `size` is where the last whole record ends; what lies beyond is written over.
  AppendFile(std::filesystem::path path, off_t size) : path_(std::move(path)), size_(size) {}

  // Appends `bytes` with one write. After an error the file ends where it did.
  absl::Status Append(absl::string_view bytes);

  // Puts what was appended on the disk.
  absl::Status Sync() const;

  const std::filesystem::path& path() const { return path_; }
  off_t size() const { return size_; }

 private:
  std::filesystem::path path_;
  off_t size_;
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_APPEND_FILE_H_
