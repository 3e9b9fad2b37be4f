#include "core/tracking/zip_archive.h"

#include <zip.h>

#include "absl/strings/str_cat.h"

namespace accel::tracking {
namespace {

absl::Status ZipError(const std::filesystem::path& path, zip_error_t* error) {
  absl::Status status = absl::InternalError(
      absl::StrCat("cannot write ", path.string(), ": ", zip_error_strerror(error)));
  zip_error_fini(error);
  return status;
}

absl::Status ArchiveError(const std::filesystem::path& path, zip_t* archive) {
  return absl::InternalError(
      absl::StrCat("cannot write ", path.string(), ": ", zip_strerror(archive)));
}

absl::Status AddMember(const std::filesystem::path& path, const ZipMember& member, zip_t* archive) {
  zip_source_t* const source =
      member.file.empty()
          ? zip_source_buffer(archive, member.text.data(), member.text.size(), /*freep=*/0)
          : zip_source_file(archive, member.file.c_str(), 0, /*len=*/-1);
  if (source == nullptr) return ArchiveError(path, archive);
  if (zip_file_add(archive, member.name.c_str(), source, ZIP_FL_ENC_UTF_8) >= 0) {
    return absl::OkStatus();
  }
  absl::Status status = ArchiveError(path, archive);
  zip_source_free(source);
  return status;
}

}  // namespace

absl::Status WriteZip(const std::filesystem::path& path, const std::vector<ZipMember>& members) {
  int code = 0;
  zip_t* const archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  if (archive == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    return ZipError(path, &error);
  }
  absl::Status status;
  for (const ZipMember& member : members) {
    status = AddMember(path, member, archive);
    if (!status.ok()) break;
  }
  // Here everything is read and written.
  if (status.ok() && zip_close(archive) == 0) return status;
  status.Update(ArchiveError(path, archive));
  zip_discard(archive);
  return status;
}

}  // namespace accel::tracking
