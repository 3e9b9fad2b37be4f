#include "core/tracking/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "core/base/fd.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/tracking/crc32c.h"

namespace accel::tracking {
namespace {

namespace fs = std::filesystem;
using accel::internal::v1::tensorboard::Event;

constexpr absl::string_view kNamePrefix = "events.out.tfevents.";

template <typename Integer>
void AppendLittleEndian(Integer value, std::string* out) {
  for (size_t i = 0; i < sizeof(value); ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

std::string HostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return absl::StrReplaceAll(name.data(), {{"/", "_"}});
}

// Greatest time in the names of the event files in `folder`; 0 when there are none.
absl::StatusOr<int64_t> NewestTime(const fs::path& folder) {
  int64_t newest = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    absl::string_view rest = name;
    int64_t seconds = 0;
    if (absl::ConsumePrefix(&rest, kNamePrefix) &&
        absl::SimpleAtoi(rest.substr(0, rest.find('.')), &seconds)) {
      newest = std::max(newest, seconds);
    }
  }
  if (error) return ErrnoStatus("cannot list", folder, error.value());
  return newest;
}

}  // namespace

std::string FrameEvent(const Event& event) {
  const std::string payload = event.SerializeAsString();
  std::string frame;
  frame.reserve(payload.size() + 16);
  AppendLittleEndian(uint64_t{payload.size()}, &frame);
  AppendLittleEndian(MaskedCrc32c(frame), &frame);
  frame += payload;
  AppendLittleEndian(MaskedCrc32c(payload), &frame);
  return frame;
}

absl::StatusOr<EventFile> EventFile::Create(const fs::path& folder, absl::string_view suffix,
                                            absl::Time now) {
  static std::atomic<int> next_number{0};
  ACCEL_RETURN_IF_ERROR(CreatePrivateDirectories(folder));
  ACCEL_ASSIGN_OR_RETURN(const int64_t newest, NewestTime(folder));
  const int64_t seconds = std::max(absl::ToUnixSeconds(now), newest + 1);
  EventFile file(folder / absl::StrFormat("%s%010d.%s.%d.%d%s", kNamePrefix, seconds, HostName(),
                                          getpid(), next_number.fetch_add(1), suffix));
  Fd fd(open(file.path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrnoStatus("cannot create", file.path(), errno);
  Event version;
  version.set_wall_time(WallSeconds(now));
  version.set_file_version("brain.Event:2");
  file.Add(version);
  const absl::Status written = file.Flush();
  if (!written.ok()) unlink(file.path().c_str());
  ACCEL_RETURN_IF_ERROR(written);
  return file;
}

void EventFile::Add(const Event& event) { buffer_ += FrameEvent(event); }

absl::Status EventFile::Flush() {
  const std::string pending = std::move(buffer_);
  buffer_.clear();
  return file_.Append(pending);
}

}  // namespace accel::tracking
