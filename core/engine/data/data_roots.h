#ifndef ACCEL_CORE_ENGINE_DATA_DATA_ROOTS_H_
#define ACCEL_CORE_ENGINE_DATA_DATA_ROOTS_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/fd.h"

namespace accel::engine {

// Folders in which data files may lie, by name.
using DataRoots = std::map<std::string, std::filesystem::path>;

// Opens `<root>/<path>` for reading, below its root. INVALID_ARGUMENT for a bad name or something
// that is no regular file, NOT_FOUND for an unknown root or a missing file.
absl::StatusOr<Fd> OpenDataFile(absl::string_view name, const DataRoots& roots);

// What is wrong with a file's contents: INVALID_ARGUMENT, `<file>: <what>`, with ErrorInfo
// MALFORMED_DATA and the file's name in the metadata `file`.
absl::Status MalformedData(absl::string_view file, absl::string_view what);

// The same for one value of a table; `row` is the line and `column` the value's number in it, both
// counted from 1 and part of message and metadata.
absl::Status MalformedValue(absl::string_view file, int64_t row, int64_t column,
                            absl::string_view what);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DATA_DATA_ROOTS_H_
