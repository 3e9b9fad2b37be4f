#ifndef ACCEL_CORE_ENGINE_DATA_BYTE_SOURCE_H_
#define ACCEL_CORE_ENGINE_DATA_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/fd.h"
#include "core/engine/data/data_roots.h"

namespace accel::engine {

// A data file read from start to end. Not thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Reads up to `size` bytes; fewer only at the end of the file. INVALID_ARGUMENT (MALFORMED_DATA)
  // when compressed contents are damaged or end early.
  virtual absl::StatusOr<size_t> Read(char* data, size_t size) = 0;

  // Fills `data`; INVALID_ARGUMENT (MALFORMED_DATA) when the file ends before: `what` names the
  // part that is missing.
  absl::Status ReadExactly(char* data, size_t size, absl::string_view what);

  // The next `size` bytes, whose memory is taken as they come. Errors as ReadExactly.
  absl::StatusOr<std::string> ReadString(size_t size, absl::string_view what);

  // OK at the end of the file, else INVALID_ARGUMENT (MALFORMED_DATA).
  absl::Status ExpectEnd();

  // The file's name, for messages.
  const std::string& name() const { return name_; }

  // Bytes that Read gives in all; 0 where only reading can tell.
  size_t size() const { return size_; }

 protected:
  ByteSource(absl::string_view name, size_t size) : name_(name), size_(size) {}

 private:
  const std::string name_;
  const size_t size_;
};

// Opens `<root>/<path>`; contents are decompressed while they are read where the name ends in .gz.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenByteSource(absl::string_view name,
                                                           const DataRoots& roots);

// The same without decompression, whatever the name.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenPlainByteSource(absl::string_view name,
                                                                const DataRoots& roots);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_DATA_BYTE_SOURCE_H_
