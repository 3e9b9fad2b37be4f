#ifndef ACCEL_CORE_ENGINE_CHECKPOINT_SAFETENSORS_H_
#define ACCEL_CORE_ENGINE_CHECKPOINT_SAFETENSORS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/fd.h"

namespace accel::engine {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Reads the safetensors format: 8 bytes of header size, a JSON header, the tensors' bytes, all
// little endian. Types F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL.
class SafetensorsReader {
 public:
  // Where a tensor lies.
  struct Entry {
    std::string name;
    at::ScalarType dtype;
    std::vector<int64_t> shape;
    // Offset in the file and size, in bytes.
    int64_t offset = 0;
    int64_t size = 0;
  };

  // Reads and checks the header; `name` is the file's in messages. The tensors must fill the file
  // without gap or overlap. INVALID_ARGUMENT with ErrorInfo MALFORMED_DATA for a malformed file.
  static absl::StatusOr<SafetensorsReader> Open(Fd file, absl::string_view name);

  // In the order in which they lie in the file.
  const std::vector<Entry>& entries() const { return entries_; }
  // The header's `__metadata__`.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // Reads one tensor into memory of its own. NOT_FOUND names those that exist.
  absl::StatusOr<at::Tensor> Read(absl::string_view tensor) const;

 private:
  SafetensorsReader() = default;

  Fd file_;
  std::string name_;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

// All tensors of a file, in the order in which they lie there.
absl::StatusOr<NamedTensors> ReadSafetensors(const std::filesystem::path& path);

// Writes tensors (CPU; any layout) to a new file at `path`, which must not exist; widest types
// first, then by name, as Python's safetensors does, so that both write the same bytes. Does not
// sync. INVALID_ARGUMENT for a type that the format lacks or a name that comes twice; after an
// error the file may be there in part.
absl::Status WriteSafetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                              const std::map<std::string, std::string>& metadata = {
                                  {"format", "pt"}});

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_CHECKPOINT_SAFETENSORS_H_
