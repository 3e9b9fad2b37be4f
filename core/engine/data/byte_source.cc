#include "core/engine/data/byte_source.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace accel::engine {
namespace {

// Most that one call to zlib or the kernel is asked for.
constexpr size_t kChunk = 1 << 20;

class PlainSource : public ByteSource {
 public:
  PlainSource(absl::string_view name, Fd fd, size_t size)
      : ByteSource(name, size), fd_(std::move(fd)) {}

  absl::StatusOr<size_t> Read(char* data, size_t size) override {
    size_t done = 0;
    while (done < size) {
      const ssize_t count = read(fd_.get(), data + done, size - done);
      if (count == 0) break;
      if (count < 0) {
        if (errno == EINTR) continue;
        return ErrnoStatus("cannot read", name(), errno);
      }
      done += static_cast<size_t>(count);
    }
    return done;
  }

 private:
  const Fd fd_;
};

class GzipSource : public ByteSource {
 public:
  // Takes a file opened by gzdopen.
  GzipSource(absl::string_view name, gzFile file) : ByteSource(name, 0), file_(file) {}
  ~GzipSource() override { gzclose_r(file_); }

  absl::StatusOr<size_t> Read(char* data, size_t size) override {
    size_t done = 0;
    while (done < size) {
      const auto wanted = static_cast<unsigned>(std::min(size - done, kChunk));
      const int count = gzread(file_, data + done, wanted);
      int code = Z_OK;
      const char* text = gzerror(file_, &code);
      if (code == Z_ERRNO) return ErrnoStatus("cannot read", name(), errno);
      if (count < 0 || code != Z_OK) {
        const absl::string_view what = code == Z_BUF_ERROR ? "ends early" : text;
        return MalformedData(name(), absl::StrCat("bad gzip data: ", what));
      }
      if (count == 0) break;
      done += static_cast<size_t>(count);
    }
    return done;
  }

 private:
  const gzFile file_;
};

absl::StatusOr<std::unique_ptr<ByteSource>> OpenGzip(absl::string_view name, Fd fd) {
  gzFile file = gzdopen(fd.get(), "rb");
  if (file == nullptr) return absl::ResourceExhaustedError("no memory to decompress a file");
  fd.Release();
  auto source = std::make_unique<GzipSource>(name, file);
  gzbuffer(file, 1 << 17);
  // zlib passes through what is not compressed; here the name promises that it is.
  if (gzdirect(file) != 0) return MalformedData(name, "is not gzip-compressed");
  return source;
}

}  // namespace

absl::Status ByteSource::ReadExactly(char* data, size_t size, absl::string_view what) {
  ACCEL_ASSIGN_OR_RETURN(const size_t count, Read(data, size));
  if (count == size) return absl::OkStatus();
  return MalformedData(name_, absl::StrCat("ends in the ", what, ": ", count, " bytes of ", size));
}

absl::StatusOr<std::string> ByteSource::ReadString(size_t size, absl::string_view what) {
  std::string contents;
  if (size <= size_) contents.reserve(size);
  while (contents.size() < size) {
    const size_t begin = contents.size();
    contents.resize(begin + std::min(size - begin, kChunk));
    ACCEL_ASSIGN_OR_RETURN(const size_t count, Read(&contents[begin], contents.size() - begin));
    if (count < contents.size() - begin) {
      return MalformedData(
          name_, absl::StrCat("ends in the ", what, ": ", begin + count, " bytes of ", size));
    }
  }
  return contents;
}

absl::Status ByteSource::ExpectEnd() {
  char byte;
  ACCEL_ASSIGN_OR_RETURN(const size_t count, Read(&byte, 1));
  if (count == 0) return absl::OkStatus();
  return MalformedData(name_, "has more bytes than its header says");
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenPlainByteSource(absl::string_view name,
                                                                const DataRoots& roots) {
  ACCEL_ASSIGN_OR_RETURN(Fd fd, OpenDataFile(name, roots));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus("cannot stat", std::string(name), errno);
  return std::make_unique<PlainSource>(name, std::move(fd), static_cast<size_t>(info.st_size));
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenByteSource(absl::string_view name,
                                                           const DataRoots& roots) {
  if (!absl::EndsWith(name, ".gz")) return OpenPlainByteSource(name, roots);
  ACCEL_ASSIGN_OR_RETURN(Fd fd, OpenDataFile(name, roots));
  return OpenGzip(name, std::move(fd));
}

}  // namespace accel::engine
