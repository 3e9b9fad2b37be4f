#include "core/base/files.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <system_error>

#include "absl/strings/match.h"
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

// The folder that a name lies in; a bare name lies in the current one.
fs::path FolderOf(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

absl::Status SyncFolder(const fs::path& folder) { return SyncPath(folder, O_RDONLY | O_DIRECTORY); }

absl::Status SyncTree(const fs::path& root) {
  std::error_code error;
  fs::recursive_directory_iterator entry(root, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const bool is_folder = entry->is_directory(error);
    if (error) break;
    ACCEL_RETURN_IF_ERROR(is_folder ? SyncFolder(entry->path())
                                    : SyncPath(entry->path(), O_RDONLY));
  }
  if (error) return ErrnoStatus("cannot list", root, error.value());
  return SyncFolder(root);
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
    return SyncFolder(FolderOf(path));
  }

  absl::Status PublishDirectory(const fs::path& staging, const fs::path& target) override {
    ACCEL_RETURN_IF_ERROR(SyncTree(staging));
    // RENAME_NOREPLACE: an empty directory at the target must not be replaced unseen.
    if (renameat2(AT_FDCWD, staging.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) != 0) {
      return ErrnoStatus("cannot publish", target, errno);
    }
    absl::Status status = SyncFolder(FolderOf(target));
    // What may not survive a crash must not be seen.
    if (!status.ok()) rename(target.c_str(), staging.c_str());
    return status;
  }

  absl::StatusOr<std::string> Read(const fs::path& path) override {
    Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) return ErrnoStatus("cannot open", path, errno);
    std::string contents;
    char chunk[64 << 10];
    for (;;) {
      const ssize_t got = read(fd.get(), chunk, sizeof(chunk));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return ErrnoStatus("cannot read", path, errno);
      if (got == 0) return contents;
      contents.append(chunk, static_cast<size_t>(got));
    }
  }
};

}  // namespace

FileSystem& FileSystem::Real() {
  static auto* const file_system = new RealFileSystem;
  return *file_system;
}

absl::StatusOr<Fd> OpenBeneath(const fs::path& root, absl::string_view relative) {
  // A system call would see the part before it only.
  if (absl::StrContains(relative, '\0')) {
    return absl::InvalidArgumentError("path contains a NUL byte");
  }
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
  std::error_code error;
  if (path.empty() || fs::is_directory(path, error)) return absl::OkStatus();
  ACCEL_RETURN_IF_ERROR(CreatePrivateDirectories(path.parent_path()));
  if (mkdir(path.c_str(), 0700) == 0) return absl::OkStatus();
  const int failure = errno;
  // Another process may have created it meanwhile.
  if (failure == EEXIST && fs::is_directory(path, error)) return absl::OkStatus();
  return ErrnoStatus("cannot create", path, failure);
}

}  // namespace accel
