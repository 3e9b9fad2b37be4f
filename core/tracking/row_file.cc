#include "core/tracking/row_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/fd.h"
#include "core/base/status_macros.h"

namespace accel::tracking {
namespace {

using nlohmann::json;

// The members of a position file.
constexpr char kSize[] = "size";
constexpr char kSequence[] = "sequence";
constexpr char kState[] = "state";

absl::StatusOr<json> ReadPosition(const std::filesystem::path& path, FileSystem* files) {
  const absl::StatusOr<std::string> text = files->Read(path);
  if (absl::IsNotFound(text.status())) {
    return json{{kSize, 0}, {kSequence, 0}, {kState, json::object()}};
  }
  ACCEL_RETURN_IF_ERROR(text.status());
  json position = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto has = [&](const char* name, auto is) {
    const auto member = position.find(name);
    return member != position.end() && is(*member);
  };
  const auto is_number = [](const json& value) { return value.is_number_integer(); };
  const auto is_object = [](const json& value) { return value.is_object(); };
  if (!position.is_object() || !has(kSize, is_number) || !has(kSequence, is_number) ||
      !has(kState, is_object)) {
    return absl::DataLossError(absl::StrCat(path.string(), " holds no position"));
  }
  return position;
}

}  // namespace

absl::StatusOr<RowFile> RowFile::Open(const std::filesystem::path& path,
                                      const std::filesystem::path& position_path,
                                      FileSystem* files) {
  ACCEL_ASSIGN_OR_RETURN(json position, ReadPosition(position_path, files));
  const off_t size = position[kSize].get<int64_t>();
  const Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrnoStatus("cannot open", path, errno);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus("cannot read the size of", path, errno);
  if (info.st_size < size) {
    return absl::FailedPreconditionError(
        absl::StrCat(path.string(), " has ", info.st_size, " bytes, ", size, " were written"));
  }
  if (info.st_size > size && ftruncate(fd.get(), size) != 0) {
    return ErrnoStatus("cannot cut back", path, errno);
  }
  RowFile file(AppendFile(path, size), position_path, files);
  file.sequence_ = position[kSequence];
  file.state_ = std::move(position[kState]);
  return file;
}

absl::Status RowFile::Append(absl::string_view bytes, int64_t sequence, json state) {
  AppendFile longer = file_;
  ACCEL_RETURN_IF_ERROR(longer.Append(bytes));
  ACCEL_RETURN_IF_ERROR(longer.Sync());
  const json position = {
      {kSize, static_cast<int64_t>(longer.size())}, {kSequence, sequence}, {kState, state}};
  ACCEL_RETURN_IF_ERROR(files_->WriteDurably(position_path_, position.dump()));
  file_ = std::move(longer);
  sequence_ = sequence;
  state_ = std::move(state);
  return absl::OkStatus();
}

}  // namespace accel::tracking
