#include "core/engine/checkpoint/checkpointer.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/engine/checkpoint/manifest.h"

namespace accel::engine {
namespace {

namespace fs = std::filesystem;

constexpr char kIncomplete[] = ".incomplete";

fs::path StagingFolder(const fs::path& folder, int64_t number) {
  return folder / absl::StrCat(".", number, kIncomplete);
}

void RemoveIncomplete(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (absl::StartsWith(name, ".") && absl::EndsWith(name, kIncomplete)) {
      fs::remove_all(entry.path(), error);
    }
  }
}

}  // namespace

std::vector<int64_t> ListCheckpoints(const fs::path& folder) {
  std::vector<int64_t> numbers;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    int64_t number = 0;
    if (entry.is_directory(error) && absl::SimpleAtoi(entry.path().filename().string(), &number)) {
      numbers.push_back(number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

Checkpointer::Checkpointer(FileSystem& files, fs::path folder, int64_t next_number,
                           std::optional<int32_t> total_limit, Communicator& communicator)
    : files_(files),
      folder_(std::move(folder)),
      next_number_(next_number),
      total_limit_(total_limit),
      communicator_(communicator) {}

absl::StatusOr<Checkpointer> Checkpointer::Create(FileSystem& files, fs::path folder,
                                                  int64_t next_number,
                                                  std::optional<int32_t> total_limit,
                                                  Communicator& communicator) {
  if (communicator.is_local_main()) {
    ACCEL_RETURN_IF_ERROR(CreatePrivateDirectories(folder));
    RemoveIncomplete(folder);
  }
  return Checkpointer(files, std::move(folder), next_number, total_limit, communicator);
}

absl::StatusOr<Checkpointer::Result> Checkpointer::Save(
    int64_t step, int64_t epoch, const std::function<absl::Status(const fs::path&)>& write_files) {
  const bool first = communicator_.is_local_main();
  const fs::path staging = StagingFolder(folder_, next_number_);
  Result result{.number = next_number_, .bytes = 0, .removed = {}, .removal = {}};
  absl::Status status = Agree(first ? CreateStaging() : absl::OkStatus());
  if (status.ok()) status = Agree(write_files(staging));
  bool published = false;
  if (status.ok()) {
    const absl::Status own = first ? Publish(step, epoch, &result) : absl::OkStatus();
    published = first && own.ok();
    status = Agree(own);
  }
  if (!status.ok()) {
    std::error_code ignored;  // the next Save or attempt removes what stays
    if (published) fs::rename(folder_ / absl::StrCat(next_number_), staging, ignored);
    if (first) fs::remove_all(staging, ignored);
    return status;
  }
  // Only once the new one is complete on every machine.
  if (first && total_limit_.has_value()) result.removal = RemoveOldest(&result.removed);
  ++next_number_;
  return result;
}

absl::Status Checkpointer::Agree(absl::Status own) {
  const bool all_ok = communicator_.Min(own.ok() ? 1 : 0) == 1;
  if (!own.ok() || all_ok) return own;
  return absl::AbortedError("another rank could not write its part of the checkpoint");
}

absl::Status Checkpointer::CreateStaging() {
  const fs::path staging = StagingFolder(folder_, next_number_);
  std::error_code error;
  fs::remove_all(staging, error);
  if (error) return ErrnoStatus("cannot remove", staging, error.value());
  return CreatePrivateDirectories(staging);
}

absl::Status Checkpointer::Publish(int64_t step, int64_t epoch, Result* result) {
  const fs::path staging = StagingFolder(folder_, next_number_);
  Manifest manifest{
      .step = step, .epoch = epoch, .create_time_us = NowMicros(Clock::Real()), .files = {}};
  ACCEL_ASSIGN_OR_RETURN(result->bytes, WriteManifest(files_, staging, std::move(manifest)));
  return files_.PublishDirectory(staging, folder_ / absl::StrCat(next_number_));
}

absl::Status Checkpointer::RemoveOldest(std::vector<int64_t>* removed) {
  const std::vector<int64_t> numbers = ListCheckpoints(folder_);
  const int64_t excess = static_cast<int64_t>(numbers.size()) - *total_limit_;
  for (int64_t i = 0; i < excess; ++i) {
    // Out of sight first, so that none is ever listed with files missing.
    const fs::path hidden = StagingFolder(folder_, numbers[i]);
    std::error_code error;
    fs::rename(folder_ / absl::StrCat(numbers[i]), hidden, error);
    if (error) return ErrnoStatus("cannot rename", hidden, error.value());
    removed->push_back(numbers[i]);
    fs::remove_all(hidden, error);
    if (error) return ErrnoStatus("cannot remove", hidden, error.value());
  }
  return absl::OkStatus();
}

}  // namespace accel::engine
