#include "core/tracking/block_log.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/fd.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace accel::tracking {
namespace {

constexpr size_t kBlock = 32768;
constexpr size_t kFragmentHeader = 7;
// A longer record is taken for damage.
constexpr size_t kMaxRecord = 64 << 20;

enum Kind : uint8_t { kWhole = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

uint32_t Checksum(uint8_t kind, absl::string_view data) {
  uLong crc = crc32(0, &kind, 1);
  crc = crc32(crc, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size()));
  return static_cast<uint32_t>(crc);
}

void AppendFragment(uint8_t kind, absl::string_view data, std::string* out) {
  const uint32_t crc = Checksum(kind, data);
  for (int i = 0; i < 4; ++i) out->push_back(static_cast<char>(crc >> (8 * i)));
  out->push_back(static_cast<char>(data.size() & 0xff));
  out->push_back(static_cast<char>(data.size() >> 8));
  out->push_back(static_cast<char>(kind));
  out->append(data.data(), data.size());
}

uint32_t Byte(absl::string_view bytes, size_t i) { return static_cast<uint8_t>(bytes[i]); }

// Reads records until the first one that is torn or damaged.
class Scanner {
 public:
  Scanner(std::ifstream* in, size_t start) : in_(in), position_(start), end_(start) {}

  // The next whole record; false at the end of those.
  bool Next(std::string* record) {
    record->clear();
    while (true) {
      const size_t left = kBlock - position_ % kBlock;
      if (left < kFragmentHeader) {
        std::string padding(left, '\0');
        if (!Read(&padding)) return false;
        continue;
      }
      std::string header(kFragmentHeader, '\0');
      if (!Read(&header)) return false;
      const uint32_t crc =
          Byte(header, 0) | Byte(header, 1) << 8 | Byte(header, 2) << 16 | Byte(header, 3) << 24;
      std::string data(Byte(header, 4) | Byte(header, 5) << 8, '\0');
      const auto kind = static_cast<uint8_t>(header[6]);
      const bool begins = kind == kWhole || kind == kFirst;
      if (data.size() > left - kFragmentHeader || !Read(&data) || Checksum(kind, data) != crc ||
          kind < kWhole || kind > kLast || begins != !inside_ ||
          record->size() + data.size() > kMaxRecord) {
        return false;
      }
      *record += data;
      inside_ = kind == kFirst || kind == kMiddle;
      if (inside_) continue;
      end_ = position_;
      return true;
    }
  }

  // Where the last whole record ends.
  size_t end() const { return end_; }

 private:
  bool Read(std::string* bytes) {
    if (bytes->empty()) return true;
    in_->read(bytes->data(), static_cast<std::streamsize>(bytes->size()));
    position_ += bytes->size();
    return in_->good();
  }

  std::ifstream* const in_;
  size_t position_;
  size_t end_;
  bool inside_ = false;
};

}  // namespace

absl::StatusOr<BlockLog> BlockLog::Open(const std::filesystem::path& path, absl::string_view header,
                                        absl::FunctionRef<void(absl::string_view)> on_record) {
  ACCEL_RETURN_IF_ERROR(CreatePrivateDirectories(path.parent_path()));
  const Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrnoStatus("cannot create", path, errno);
  std::ifstream in(path, std::ios::binary);
  std::string found(header.size(), '\0');
  in.read(found.data(), static_cast<std::streamsize>(found.size()));
  if (!in.good()) {
    BlockLog log(AppendFile(path, 0));
    log.pending_ = std::string(header);
    return log;
  }
  if (found != header) {
    return absl::DataLossError(absl::StrCat(path.string(), " starts with another header"));
  }
  Scanner scanner(&in, header.size());
  for (std::string record; scanner.Next(&record);) on_record(record);
  const auto end = static_cast<off_t>(scanner.end());
  if (ftruncate(fd.get(), end) != 0) return ErrnoStatus("cannot cut back", path, errno);
  return BlockLog(AppendFile(path, end));
}

void BlockLog::Add(absl::string_view record) {
  bool first = true;
  do {
    const size_t left = kBlock - (static_cast<size_t>(file_.size()) + pending_.size()) % kBlock;
    if (left < kFragmentHeader) {
      pending_.append(left, '\0');
      continue;
    }
    const absl::string_view data = record.substr(0, left - kFragmentHeader);
    record.remove_prefix(data.size());
    const bool last = record.empty();
    AppendFragment(first ? (last ? kWhole : kFirst) : (last ? kLast : kMiddle), data, &pending_);
    first = false;
  } while (first || !record.empty());
}

absl::Status BlockLog::Flush() {
  ACCEL_RETURN_IF_ERROR(file_.Append(pending_));
  pending_.clear();
  return absl::OkStatus();
}

}  // namespace accel::tracking
