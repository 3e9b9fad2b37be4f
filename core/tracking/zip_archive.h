#ifndef ACCEL_CORE_TRACKING_ZIP_ARCHIVE_H_
#define ACCEL_CORE_TRACKING_ZIP_ARCHIVE_H_

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace accel::tracking {

// One member of an archive: its name there, and the text or the file that it holds.
struct ZipMember {
  std::string name;
  std::string text;
  // Read as it is now; not used when empty.
  std::filesystem::path file;
};

// Writes `path` with these members at its top level, compressed, by way of another name, so that
// the archive is there as a whole or as it was before.
absl::Status WriteZip(const std::filesystem::path& path, const std::vector<ZipMember>& members);

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_ZIP_ARCHIVE_H_
