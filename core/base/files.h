#ifndef ACCEL_CORE_BASE_FILES_H_
#define ACCEL_CORE_BASE_FILES_H_

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/fd.h"

namespace accel {

// The seam for files that must survive a crash. Thread-safe. Errors name the path and carry the
// code of the failed call (NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED on a full disk, ...).
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Writes `contents` to a new file beside `path`, syncs it, renames it to `path` and syncs the
  // directory. After an error `path` is as it was before.
  virtual absl::Status WriteDurably(const std::filesystem::path& path,
                                    absl::string_view contents) = 0;

  // Syncs every file in `staging` and the directory itself, renames it to `target`, which must not
  // exist, and syncs the parent. After an error `target` does not exist.
  virtual absl::Status PublishDirectory(const std::filesystem::path& staging,
                                        const std::filesystem::path& target) = 0;

  virtual absl::StatusOr<std::string> Read(const std::filesystem::path& path) = 0;

  // The machine's file system; never destroyed.
  static FileSystem& Real();
};

// Status of a failed system call: `<what> <path>: <text of errno>`.
absl::Status ErrnoStatus(absl::string_view what, const std::filesystem::path& path, int error);

// Opens `relative` for reading below `root`; `..`, absolute paths and links never leave `root`
// (openat2 with RESOLVE_BENEATH). INVALID_ARGUMENT when the path would leave it.
absl::StatusOr<Fd> OpenBeneath(const std::filesystem::path& root, absl::string_view relative);

// Creates `path` and its missing parents, owner-only (mode 0700).
absl::Status CreatePrivateDirectories(const std::filesystem::path& path);

}  // namespace accel

#endif  // ACCEL_CORE_BASE_FILES_H_
