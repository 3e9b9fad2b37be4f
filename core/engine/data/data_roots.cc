#include "core/engine/data/data_roots.h"

#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/errors.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/config/job_spec.h"

namespace accel::engine {
namespace {

constexpr absl::string_view kMalformedData = "MALFORMED_DATA";

}  // namespace

absl::StatusOr<Fd> OpenDataFile(absl::string_view name, const DataRoots& roots) {
  ACCEL_ASSIGN_OR_RETURN(const config::DataFile file, config::ParseDataFile(name));
  const auto root = roots.find(file.root);
  if (root == roots.end()) {
    const auto names = absl::StrJoin(
        roots, ", ", [](std::string* out, const auto& entry) { out->append(entry.first); });
    return absl::NotFoundError(absl::StrCat("data file ", name, ": no data root \"", file.root,
                                            "\", this node has: ", names.empty() ? "none" : names));
  }
  absl::StatusOr<Fd> fd = OpenBeneath(root->second, file.path);
  if (!fd.ok()) {
    return absl::Status(fd.status().code(),
                        absl::StrCat("data file ", name, ": ", fd.status().message()));
  }
  struct stat info;
  if (fstat(fd->get(), &info) != 0) return ErrnoStatus("cannot stat", std::string(name), errno);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("data file ", name, " is no regular file"));
  }
  return fd;
}

absl::Status MalformedData(absl::string_view file, absl::string_view what) {
  return WithErrorInfo(absl::InvalidArgumentError(absl::StrCat(file, ": ", what)), kMalformedData,
                       {{"file", std::string(file)}});
}

absl::Status MalformedValue(absl::string_view file, int64_t row, int64_t column,
                            absl::string_view what) {
  return WithErrorInfo(
      absl::InvalidArgumentError(absl::StrCat(file, ": row ", row, " column ", column, ": ", what)),
      kMalformedData,
      {{"file", std::string(file)}, {"row", absl::StrCat(row)}, {"column", absl::StrCat(column)}});
}

}  // namespace accel::engine
