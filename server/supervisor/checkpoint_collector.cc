#include "server/supervisor/checkpoint_collector.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "google/protobuf/util/time_util.h"
#include "nlohmann/json.hpp"
#include "spdlog/spdlog.h"

namespace accel::supervisor {
namespace {

namespace fs = std::filesystem;
using accel::internal::v1::CheckpointReport;
using accel::v1::Checkpoint;
using google::protobuf::util::TimeUtil;

constexpr char kManifest[] = "manifest.json";

}  // namespace

absl::StatusOr<std::vector<Checkpoint::File>> ReadManifest(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kManifest;
  ACCEL_ASSIGN_OR_RETURN(const std::string text, FileSystem::Real().Read(path));
  const auto manifest = nlohmann::json::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
  const absl::Status malformed =
      absl::DataLossError(absl::StrCat(path.string(), " is no checkpoint's manifest"));
  if (!manifest.is_object() || !manifest.contains("files") || !manifest["files"].is_array()) {
    return malformed;
  }
  std::vector<Checkpoint::File> files;
  for (const auto& entry : manifest["files"]) {
    if (!entry.is_object() || !entry.contains("path") || !entry["path"].is_string() ||
        !entry.contains("bytes") || !entry["bytes"].is_number_integer() ||
        !entry.contains("sha256") || !entry["sha256"].is_string()) {
      return malformed;
    }
    Checkpoint::File& file = files.emplace_back();
    file.set_path(entry["path"].get<std::string>());
    file.set_bytes(entry["bytes"].get<int64_t>());
    file.set_sha256(entry["sha256"].get<std::string>());
  }
  return files;
}

int64_t NextCheckpoint(const fs::path& directory, int64_t first) {
  int64_t next = first;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    int64_t number;
    // Folders of interrupted checkpoints have other names.
    if (absl::SimpleAtoi(entry.path().filename().string(), &number)) {
      next = std::max(next, number + 1);
    }
  }
  return next;
}

CheckpointCollector::CheckpointCollector(int world_size, std::string job_name, fs::path directory)
    : world_size_(world_size), job_name_(std::move(job_name)), directory_(std::move(directory)) {}

std::optional<WrittenCheckpoint> CheckpointCollector::Add(int rank,
                                                          const CheckpointReport& report) {
  Reports& reports = pending_[report.number()];
  reports[rank] = report;
  if (static_cast<int>(reports.size()) < world_size_) return std::nullopt;
  WrittenCheckpoint written = Merge(reports);
  pending_.erase(report.number());
  return written;
}

std::vector<WrittenCheckpoint> CheckpointCollector::TakeComplete() {
  std::vector<WrittenCheckpoint> complete;
  for (const auto& [number, reports] : pending_) {
    if (reports.contains(0)) complete.push_back(Merge(reports));
  }
  pending_.clear();
  return complete;
}

WrittenCheckpoint CheckpointCollector::Merge(const Reports& reports) const {
  const CheckpointReport& first = reports.at(0);
  WrittenCheckpoint written;
  for (const auto& [rank, report] : reports) {
    written.stall_seconds = std::max(written.stall_seconds, report.stall_seconds());
  }
  for (const int64_t number : first.removed()) written.removed.push_back(Name(number));
  Checkpoint& checkpoint = written.checkpoint;
  checkpoint.set_name(Name(first.number()));
  checkpoint.set_step(first.step());
  checkpoint.set_epoch(first.epoch());
  *checkpoint.mutable_create_time() = TimeUtil::MicrosecondsToTimestamp(first.time_us());
  checkpoint.set_bytes(first.bytes());
  const fs::path folder = directory_ / absl::StrCat(first.number());
  checkpoint.set_path(folder.string());
  auto files = ReadManifest(folder);
  if (files.ok()) {
    checkpoint.mutable_files()->Assign(files->begin(), files->end());
  } else {
    spdlog::error("checkpoint {}: {}", checkpoint.name(), files.status().ToString());
  }
  return written;
}

std::string CheckpointCollector::Name(int64_t number) const {
  return absl::StrCat(job_name_, "/checkpoints/", number);
}

}  // namespace accel::supervisor
