#include "core/base/secrets_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/fd.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace accel {
namespace {

constexpr off_t kMaxBytes = 1 << 20;

bool IsName(absl::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
  });
}

// On the open file, so that what is checked is what is read.
absl::StatusOr<std::string> ReadPrivateFile(const std::filesystem::path& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus("cannot open", path, errno);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus("cannot look at", path, errno);
  const bool ours = info.st_uid == geteuid() || info.st_uid == 0;
  if (!S_ISREG(info.st_mode) || !ours || (info.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(path.string(),
                     " must be a regular file of this user that nobody else may read (mode 0600)"));
  }
  if (info.st_size > kMaxBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), " has more than 1 MiB"));
  }
  std::string text(static_cast<size_t>(info.st_size), '\0');
  size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t count = read(fd.get(), text.data() + filled, text.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus("cannot read", path, errno);
    if (count == 0) break;
    filled += static_cast<size_t>(count);
  }
  text.resize(filled);
  return text;
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> ReadSecretsFile(
    const std::filesystem::path& path) {
  ACCEL_ASSIGN_OR_RETURN(const std::string text, ReadPrivateFile(path));
  std::map<std::string, std::string> secrets;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    const absl::string_view value = absl::StripLeadingAsciiWhitespace(parts.second);
    const std::string name(absl::StripTrailingAsciiWhitespace(parts.first));
    if (!IsName(name) || value.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path.string(), " line ", number, " is not NAME=value"));
    }
    if (!secrets.emplace(name, value).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(path.string(), " line ", number, ": ", name, " is given twice"));
    }
  }
  return secrets;
}

}  // namespace accel
