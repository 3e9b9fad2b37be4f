#include "core/engine/data/sample_stream.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/data/byte_source.h"
#include "core/engine/data/csv.h"
#include "core/engine/data/prepare.h"
#include "core/engine/data/raw_tensors.h"

namespace accel::engine {
namespace {

// Numbers the samples of a stream of raw tensors and prepares them.
class PreparedStream : public SampleStream {
 public:
  PreparedStream(const accel::v1::Dataset& spec, TargetKind kind, int64_t ignore_index)
      : spec_(spec), kind_(kind), ignore_index_(ignore_index) {}

  absl::StatusOr<Examples> Read(int64_t count) override {
    ACCEL_ASSIGN_OR_RETURN(RawTensors raw, ReadRaw(count));
    if (!raw.features.defined()) return Examples{};
    const int64_t first = samples_read_;
    samples_read_ += raw.features.size(0);
    return PrepareExamples(spec_, std::move(raw), kind_, ignore_index_, first);
  }

 protected:
  // As Read, before preparation.
  virtual absl::StatusOr<RawTensors> ReadRaw(int64_t count) = 0;

  const accel::v1::Dataset& spec() const { return spec_; }

 private:
  const accel::v1::Dataset spec_;
  const TargetKind kind_;
  const int64_t ignore_index_;
  int64_t samples_read_ = 0;
};

class CsvStream final : public PreparedStream {
 public:
  CsvStream(const accel::v1::Dataset& spec, TargetKind kind, std::unique_ptr<ByteSource> source,
            int64_t ignore_index)
      : PreparedStream(spec, kind, ignore_index),
        source_(std::move(source)),
        reader_(*source_, spec.csv(), kind == TargetKind::kClass,
                static_cast<double>(ignore_index)) {}

 private:
  absl::StatusOr<RawTensors> ReadRaw(int64_t count) override {
    ACCEL_ASSIGN_OR_RETURN(CsvTable table, reader_.Read(count));
    if (table.targets.empty()) return RawTensors{};
    return TensorsOf(std::move(table));
  }

  const std::unique_ptr<ByteSource> source_;
  CsvReader reader_;
};

class NpyStream final : public PreparedStream {
 public:
  NpyStream(const accel::v1::Dataset& spec, TargetKind kind, int64_t ignore_index,
            NpyReader features, std::optional<NpyReader> targets)
      : PreparedStream(spec, kind, ignore_index),
        features_(std::move(features)),
        targets_(std::move(targets)) {}

 private:
  absl::StatusOr<RawTensors> ReadRaw(int64_t count) override {
    RawTensors raw;
    ACCEL_ASSIGN_OR_RETURN(raw.features, features_.Read(count));
    if (!raw.features.defined()) return raw;
    if (!targets_.has_value()) return SplitLastColumn(spec().file(), raw.features);
    ACCEL_ASSIGN_OR_RETURN(raw.targets, targets_->Read(count));
    return raw;
  }

  NpyReader features_;
  std::optional<NpyReader> targets_;
};

// Windows of bytes, as WindowDataset has them.
class WindowStream final : public SampleStream {
 public:
  WindowStream(std::unique_ptr<ByteSource> source, int64_t length, int64_t stride)
      : source_(std::move(source)),
        length_(static_cast<size_t>(length)),
        stride_(static_cast<size_t>(stride)) {}

  absl::StatusOr<Examples> Read(int64_t count) override {
    const size_t window = length_ + 1;
    std::string windows;
    int64_t read = 0;
    for (; read < count; ++read) {
      ACCEL_RETURN_IF_ERROR(Fill(window));
      if (buffer_.size() - begin_ < window) break;
      windows.append(buffer_, begin_, window);
      ACCEL_RETURN_IF_ERROR(Skip(stride_));
    }
    if (read == 0) return Examples{};
    at::Tensor bytes =
        at::empty({read, static_cast<int64_t>(window)}, at::TensorOptions(at::kByte));
    std::memcpy(bytes.mutable_data_ptr(), windows.data(), windows.size());
    const at::Tensor tokens = bytes.to(at::kLong);
    const auto length = static_cast<int64_t>(length_);
    return Examples{tokens.narrow(1, 0, length).contiguous(),
                    tokens.narrow(1, 1, length).contiguous()};
  }

 private:
  static constexpr size_t kChunk = 1 << 16;

  // Reads until `size` bytes lie ahead or the file has ended.
  absl::Status Fill(size_t size) {
    while (!ended_ && buffer_.size() - begin_ < size) {
      buffer_.erase(0, std::exchange(begin_, 0));
      const size_t used = buffer_.size();
      buffer_.resize(used + kChunk);
      ACCEL_ASSIGN_OR_RETURN(const size_t got, source_->Read(&buffer_[used], kChunk));
      buffer_.resize(used + got);
      ended_ = got < kChunk;
    }
    return absl::OkStatus();
  }

  absl::Status Skip(size_t size) {
    while (size > 0) {
      ACCEL_RETURN_IF_ERROR(Fill(1));
      const size_t step = std::min(size, buffer_.size() - begin_);
      if (step == 0) return absl::OkStatus();
      begin_ += step;
      size -= step;
    }
    return absl::OkStatus();
  }

  const std::unique_ptr<ByteSource> source_;
  const size_t length_;
  const size_t stride_;
  std::string buffer_;
  size_t begin_ = 0;
  bool ended_ = false;
};

absl::StatusOr<std::unique_ptr<SampleStream>> OpenNpyStream(const accel::v1::Dataset& spec,
                                                            TargetKind kind, const DataRoots& roots,
                                                            int64_t ignore_index) {
  ACCEL_ASSIGN_OR_RETURN(NpyReader features, NpyReader::Open(spec.file(), roots));
  std::optional<NpyReader> targets;
  if (spec.npy().has_target_file()) {
    ACCEL_ASSIGN_OR_RETURN(targets, NpyReader::Open(spec.npy().target_file(), roots));
    if (features.rows() != targets->rows()) {
      return MalformedData(spec.npy().target_file(),
                           absl::StrCat("has ", targets->rows(), " targets, but ", spec.file(),
                                        " has features of ", features.rows(), " samples"));
    }
  }
  return std::make_unique<NpyStream>(spec, kind, ignore_index, std::move(features),
                                     std::move(targets));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SampleStream>> OpenSampleStream(const accel::v1::Dataset& spec,
                                                               TargetKind kind,
                                                               const DataRoots& roots,
                                                               int64_t ignore_index) {
  ACCEL_RETURN_IF_ERROR(CheckFormatGoesWith(spec, kind));
  if (spec.has_npy()) return OpenNpyStream(spec, kind, roots, ignore_index);
  if (!spec.has_csv() && !spec.has_bytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data file ", spec.file(), ": only csv, npy and bytes are read as a stream"));
  }
  ACCEL_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, OpenByteSource(spec.file(), roots));
  if (spec.has_csv()) {
    return std::make_unique<CsvStream>(spec, kind, std::move(source), ignore_index);
  }
  ACCEL_ASSIGN_OR_RETURN(const WindowShape shape, WindowShapeOf(spec));
  return std::make_unique<WindowStream>(std::move(source), shape.length, shape.stride);
}

}  // namespace accel::engine
