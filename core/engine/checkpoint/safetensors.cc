#include "core/engine/checkpoint/safetensors.h"

#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/engine/checkpoint/safetensors_header.h"
#include "core/engine/data/data_roots.h"

namespace accel::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kHeaderAlignment = 8;

absl::Status ReadAt(int fd, const std::string& name, int64_t offset, char* data, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t count = pread(fd, data + done, size - done, offset + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus("cannot read", name, errno);
    if (count == 0) return MalformedData(name, "ends early");
    done += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

absl::Status WriteAll(int fd, const std::filesystem::path& path, const void* data, size_t size) {
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t count = write(fd, next, size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus("cannot write", path, errno);
    next += count;
    size -= static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

// The order in which Python's safetensors writes: aligned without padding, and the same every time.
NamedTensors Ordered(NamedTensors tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    const int64_t size_a = a.second.element_size(), size_b = b.second.element_size();
    return size_a != size_b ? size_a > size_b : a.first < b.first;
  });
  return tensors;
}

absl::StatusOr<SafetensorsHeader> MakeHeader(const NamedTensors& tensors,
                                             const std::map<std::string, std::string>& metadata) {
  SafetensorsHeader header;
  header.metadata = metadata;
  std::map<std::string, bool> seen;
  int64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    if (SafetensorsTypeName(tensor.scalar_type()).empty()) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", name, " has the type ",
                                                     c10::toString(tensor.scalar_type()),
                                                     ", which safetensors lacks"));
    }
    if (!seen.emplace(name, true).second) {
      return absl::InvalidArgumentError(absl::StrCat("tensor name ", name, " comes twice"));
    }
    const auto size = static_cast<int64_t>(tensor.nbytes());
    header.entries.push_back({name, tensor.scalar_type(), tensor.sizes().vec(), offset, size});
    offset += size;
  }
  return header;
}

}  // namespace

absl::StatusOr<SafetensorsReader> SafetensorsReader::Open(Fd file, absl::string_view name) {
  SafetensorsReader reader;
  reader.file_ = std::move(file);
  reader.name_ = std::string(name);
  const int fd = reader.file_.get();
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus("cannot stat", reader.name_, errno);
  uint64_t header_bytes = 0;
  constexpr int64_t kPrefix = sizeof(header_bytes);
  if (info.st_size < kPrefix) return MalformedData(name, "is no safetensors file: too short");
  ACCEL_RETURN_IF_ERROR(
      ReadAt(fd, reader.name_, 0, reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes)));
  const auto rest = static_cast<uint64_t>(info.st_size - kPrefix);
  if (header_bytes > std::min(rest, kMaxHeaderBytes)) {
    return MalformedData(name, absl::StrCat("is no safetensors file: header of ", header_bytes,
                                            " bytes in a file of ", info.st_size, ", at most ",
                                            kMaxHeaderBytes, " are allowed"));
  }
  std::string text(header_bytes, '\0');
  ACCEL_RETURN_IF_ERROR(ReadAt(fd, reader.name_, kPrefix, text.data(), text.size()));
  absl::StatusOr<SafetensorsHeader> header =
      ParseSafetensorsHeader(text, static_cast<int64_t>(rest - header_bytes));
  if (!header.ok()) return MalformedData(name, header.status().message());
  reader.metadata_ = std::move(header->metadata);
  reader.entries_ = std::move(header->entries);
  for (Entry& entry : reader.entries_) entry.offset += kPrefix + static_cast<int64_t>(header_bytes);
  return reader;
}

absl::StatusOr<at::Tensor> SafetensorsReader::Read(absl::string_view tensor) const {
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& e) { return e.name == tensor; });
  if (entry == entries_.end()) {
    constexpr size_t kMaxShown = 20;
    const auto shown_end = entries_.begin() + std::min(entries_.size(), kMaxShown);
    const std::string names =
        absl::StrJoin(entries_.begin(), shown_end, ", ",
                      [](std::string* out, const Entry& e) { out->append(e.name); });
    return absl::NotFoundError(absl::StrCat(name_, ": has no tensor \"", tensor, "\", it has ",
                                            names, shown_end == entries_.end() ? "" : ", ..."));
  }
  at::Tensor result = at::empty(entry->shape, at::TensorOptions(entry->dtype));
  ACCEL_RETURN_IF_ERROR(ReadAt(file_.get(), name_, entry->offset,
                               static_cast<char*>(result.data_ptr()),
                               static_cast<size_t>(entry->size)));
  return result;
}

absl::StatusOr<NamedTensors> ReadSafetensors(const std::filesystem::path& path) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus("cannot open", path, errno);
  ACCEL_ASSIGN_OR_RETURN(const SafetensorsReader reader,
                         SafetensorsReader::Open(std::move(fd), path.string()));
  NamedTensors tensors;
  for (const SafetensorsReader::Entry& entry : reader.entries()) {
    ACCEL_ASSIGN_OR_RETURN(at::Tensor tensor, reader.Read(entry.name));
    tensors.emplace_back(entry.name, std::move(tensor));
  }
  return tensors;
}

absl::Status WriteSafetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                              const std::map<std::string, std::string>& metadata) {
  const NamedTensors ordered = Ordered(tensors);
  ACCEL_ASSIGN_OR_RETURN(const SafetensorsHeader header, MakeHeader(ordered, metadata));
  std::string text = FormatSafetensorsHeader(header);
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  const uint64_t header_bytes = text.size();

  const Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrnoStatus("cannot create", path, errno);
  ACCEL_RETURN_IF_ERROR(WriteAll(fd.get(), path, &header_bytes, sizeof(header_bytes)));
  ACCEL_RETURN_IF_ERROR(WriteAll(fd.get(), path, text.data(), text.size()));
  for (const auto& [name, tensor] : ordered) {
    const at::Tensor plain = tensor.detach().contiguous();
    ACCEL_RETURN_IF_ERROR(WriteAll(fd.get(), path, plain.const_data_ptr(), plain.nbytes()));
  }
  return absl::OkStatus();
}

}  // namespace accel::engine
