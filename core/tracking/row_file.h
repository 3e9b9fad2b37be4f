#ifndef ACCEL_CORE_TRACKING_ROW_FILE_H_
#define ACCEL_CORE_TRACKING_ROW_FILE_H_

#include <cstdint>
#include <filesystem>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/files.h"
#include "core/tracking/append_file.h"
#include "nlohmann/json.hpp"

namespace accel::tracking {

// A file that grows by whole batches of rows and holds each row once, whatever was killed when.
//
// Beside it lies a small file with its position: how long it is, the last row in it and what its
// writer wants to remember. A batch is appended and put on the disk, then the position is replaced.
// Opening cuts the file back to the position, so that a batch of which the position knows nothing
// is gone and comes again as a whole. Readers see whole batches and, while one is being written or
// after a kill, a torn tail at most. Used by one thread.
class RowFile {
 public:
  // Opens or creates both files; their folders must exist. FAILED_PRECONDITION when the file is
  // shorter than its position says, which no crash makes.
  static absl::StatusOr<RowFile> Open(const std::filesystem::path& path,
                                      const std::filesystem::path& position_path,
                                      FileSystem* files);

  const std::filesystem::path& path() const { return file_.path(); }
  // Last row in the file; 0 before the first.
  int64_t sequence() const { return sequence_; }
  // What the last Append was given; an empty object before the first.
  const nlohmann::json& state() const { return state_; }

  // Appends `bytes`, with which the file holds every row up to `sequence`. After an error the file
  // counts as it was before, and the next Append writes over what may have been written.
  absl::Status Append(absl::string_view bytes, int64_t sequence, nlohmann::json state);

 private:
  RowFile(AppendFile file, std::filesystem::path position_path, FileSystem* files)
      : file_(std::move(file)), position_path_(std::move(position_path)), files_(files) {}

  AppendFile file_;
  std::filesystem::path position_path_;
  FileSystem* files_;
  int64_t sequence_ = 0;
  nlohmann::json state_ = nlohmann::json::object();
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_ROW_FILE_H_
