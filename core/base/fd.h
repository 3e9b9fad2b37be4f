#ifndef ACCEL_CORE_BASE_FD_H_
#define ACCEL_CORE_BASE_FD_H_

#include <unistd.h>

#include <utility>

namespace accel {

// Owns a file descriptor; closes it on destruction. -1 means none.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.Release()) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) Reset(other.Release());
    return *this;
  }
  ~Fd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace accel

#endif  // ACCEL_CORE_BASE_FD_H_
