#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "core/base/clock.h"
#include "core/base/fd.h"
#include "gtest/gtest.h"

namespace accel {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

int OpenNull() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

TEST(FdTest, ClosesWhatItOwnsOnce) {
  int number;
  {
    Fd fd(OpenNull());
    number = fd.get();
    EXPECT_TRUE(fd.valid());
    EXPECT_TRUE(IsOpen(number));
  }
  EXPECT_FALSE(IsOpen(number));
  EXPECT_FALSE(Fd().valid());
}

TEST(FdTest, MovesLeaveNothingBehind) {
  Fd first(OpenNull());
  const int number = first.get();
  Fd second(std::move(first));
  EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): the state is documented
  EXPECT_EQ(second.get(), number);
  Fd third(OpenNull());
  const int replaced = third.get();
  third = std::move(second);
  EXPECT_EQ(third.get(), number);
  EXPECT_FALSE(IsOpen(replaced));
}

TEST(FdTest, ReleaseGivesItUp) {
  Fd fd(OpenNull());
  const int number = fd.Release();
  EXPECT_FALSE(fd.valid());
  EXPECT_TRUE(IsOpen(number));
  fd.Reset(number);
  fd.Reset();
  EXPECT_FALSE(IsOpen(number));
}

TEST(ClockTest, MonotonicTimeNeverGoesBack) {
  const Clock& clock = Clock::Real();
  absl::Duration last = clock.Monotonic();
  for (int i = 0; i < 1000; ++i) {
    const absl::Duration now = clock.Monotonic();
    EXPECT_GE(now, last);
    last = now;
  }
}

TEST(ClockTest, MicrosecondsAreThoseOfWallTime) {
  const Clock& clock = Clock::Real();
  const int64_t before = absl::ToUnixMicros(clock.Now());
  const int64_t micros = NowMicros(clock);
  EXPECT_LE(before, micros);
  EXPECT_LE(micros, absl::ToUnixMicros(clock.Now()));
}

}  // namespace
}  // namespace accel
