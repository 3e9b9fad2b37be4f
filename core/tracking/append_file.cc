#include "core/tracking/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/fd.h"
#include "core/base/files.h"

namespace accel::tracking {

absl::Status AppendFile::Append(absl::string_view bytes) {
  if (bytes.empty()) return absl::OkStatus();
  const Fd fd(open(path_.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus("cannot open", path_, errno);
  ssize_t written = 0;
  do {
    written = pwrite(fd.get(), bytes.data(), bytes.size(), size_);
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(bytes.size())) {
    size_ += written;
    return absl::OkStatus();
  }
  // A short write means that the disk is full. Readers never get past a torn record, so it is cut
  // off; if even that fails the next Append writes over it, at the same place.
  const int error = written < 0 ? errno : ENOSPC;
  if (ftruncate(fd.get(), size_) != 0) return ErrnoStatus("cannot cut back", path_, errno);
  return ErrnoStatus("cannot write", path_, error);
}

absl::Status AppendFile::Sync() const {
  const Fd fd(open(path_.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus("cannot open", path_, errno);
  if (fsync(fd.get()) != 0) return ErrnoStatus("cannot sync", path_, errno);
  return absl::OkStatus();
}

}  // namespace accel::tracking
