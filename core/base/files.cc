#include "core/base/files.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace accel {
namespace fs = std::filesystem;

absl::Status ErrnoStatus(absl::string_view what, const fs::path& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat(what, " ", path.string()));
}

namespace {

absl::Status SyncPath(const fs::path& path, int flags) {
  Fd fd(open(path.c_str(), flags | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus("cannot open", path, errno);
  if (fsync(fd.get()) != 0) return ErrnoStatus("cannot sync", path, errno);
  return absl::OkStatus();
}

absl::Status WriteAll(int fd, const fs::path& path, absl::string_view contents) {
  while (!contents.empty()) {
    const ssize_t written = write(fd, contents.data(), contents.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus("cannot write", path, errno);
    contents.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status WriteAndSync(const fs::path& path, absl::string_view contents) {
  Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrnoStatus("cannot create", path, errno);
  ACCEL_RETURN_IF_ERROR(WriteAll(fd.get(), path, contents));
  if (fsync(fd.get()) != 0) return ErrnoStatus("cannot sync", path, errno);
  return absl::OkStatus();
}

class RealFileSystem final : public FileSystem {
 public:
  absl::Status WriteDurably(const fs::path& path, absl::string_view contents) override {
    fs::path aside = path;
    aside += ".new";
    absl::Status status = WriteAndSync(aside, contents);
    if (status.ok() && rename(aside.c_str(), path.c_str()) != 0) {
      status = ErrnoStatus("cannot rename to", path, errno);
    }
    if (!status.ok()) {
      unlink(aside.c_str());
      return status;
    }
    return SyncPath(path.parent_path(), O_RDONLY | O_DIRECTORY);
  }

  absl::Status PublishDirectory(const fs::path& staging, const fs::path& target) override {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(staging, error)) {
      ACCEL_RETURN_IF_ERROR(
          SyncPath(entry.path(), entry.is_directory() ? O_RDONLY | O_DIRECTORY : O_RDONLY));
    }
    if (error) return ErrnoStatus("cannot list", staging, error.value());
    ACCEL_RETURN_IF_ERROR(SyncPath(staging, O_RDONLY | O_DIRECTORY));
    // RENAME_NOREPLACE: an empty directory at the target must not be replaced unseen.
    if (renameat2(AT_FDCWD, staging.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) != 0) {
      return ErrnoStatus("cannot publish", target, errno);
    }
    return SyncPath(target.parent_path(), O_RDONLY | O_DIRECTORY);
  }

  absl::StatusOr<std::string> Read(const fs::path& path) override {
    std::ifstream stream(path, std::ios::binary);
    if (!stream) return ErrnoStatus("cannot open", path, errno);
    std::ostringstream contents;
    contents << stream.rdbuf();
    if (stream.bad()) return absl::DataLossError(absl::StrCat("cannot read ", path.string()));
    return std::move(contents).str();
  }
};

}  // namespace

FileSystem& FileSystem::Real() {
  static auto* const file_system = new RealFileSystem;
  return *file_system;
}

absl::StatusOr<Fd> OpenBeneath(const fs::path& root, absl::string_view relative) {
  Fd directory(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return ErrnoStatus("cannot open", root, errno);
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;  // a FIFO would block the open
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const std::string path(relative);
  const long fd = syscall(SYS_openat2, directory.get(), path.c_str(), &how, sizeof(how));
  if (fd >= 0) return Fd(static_cast<int>(fd));
  if (errno == EXDEV || errno == ELOOP) {
    return absl::InvalidArgumentError(absl::StrCat("path \"", path, "\" leaves its root"));
  }
  return ErrnoStatus("cannot open", path, errno);
}

absl::Status CreatePrivateDirectories(const fs::path& path) {
  if (path.empty() || fs::is_directory(path)) return absl::OkStatus();
  ACCEL_RETURN_IF_ERROR(CreatePrivateDirectories(path.parent_path()));
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoStatus("cannot create", path, errno);
  }
  return absl::OkStatus();
}

}  // namespace accel
