#include "client/cli/io.h"

#include <unistd.h>

#include <cerrno>

namespace accel::cli {

FdStreamBuf::FdStreamBuf(int fd) : fd_(fd) { setp(buffer_, buffer_ + sizeof(buffer_)); }

FdStreamBuf::~FdStreamBuf() { FdStreamBuf::sync(); }

FdStreamBuf::int_type FdStreamBuf::overflow(int_type c) {
  if (FdStreamBuf::sync() != 0) return traits_type::eof();
  if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
  return traits_type::not_eof(c);
}

int FdStreamBuf::sync() {
  const char* data = pbase();
  while (error_ == 0 && data < pptr()) {
    const ssize_t written = write(fd_, data, static_cast<size_t>(pptr() - data));
    if (written >= 0) {
      data += written;
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  setp(buffer_, buffer_ + sizeof(buffer_));
  return error_ == 0 ? 0 : -1;
}

}  // namespace accel::cli
