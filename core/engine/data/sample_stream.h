#ifndef ACCEL_CORE_ENGINE_DATA_SAMPLE_STREAM_H_
#define ACCEL_CORE_ENGINE_DATA_SAMPLE_STREAM_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "accel/v1/data.pb.h"
#include "core/engine/data/data_roots.h"
#include "core/engine/data/dataset.h"

namespace accel::engine {

// Samples of a file from its start to its end, normalised and shaped as LoadDataset does. Memory is
// bounded by what one Read gives. Not thread-safe.
class SampleStream {
 public:
  virtual ~SampleStream() = default;

  // The next samples, up to `count` (at least 1); fewer only at the end, and undefined tensors
  // behind it. Errors as LoadDataset, with the sample's place in the file.
  virtual absl::StatusOr<Examples> Read(int64_t count) = 0;
};

// Opens the file anew.
using OpenStream = std::function<absl::StatusOr<std::unique_ptr<SampleStream>>()>;

// Opens a csv, npy or bytes file. csv and bytes are decompressed where the name ends in .gz.
// `ignore_index` as LoadDataset.
absl::StatusOr<std::unique_ptr<SampleStream>> OpenSampleStream(
    const accel::v1::Dataset& spec, TargetKind kind, const DataRoots& roots,
    int64_t ignore_index = kDefaultIgnoreIndex);

// The samples of `source` through a buffer of `size` of them: each next sample is at the place
// torch.randint(samples in the buffer, ()) of it, drawn by a generator of that seed, and the
// source's next one takes its place; behind the source's end the buffer's last one does.
std::unique_ptr<SampleStream> ShuffleStream(std::unique_ptr<SampleStream> source, int64_t size,
                                            uint64_t seed);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DATA_SAMPLE_STREAM_H_
