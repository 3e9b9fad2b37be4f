#include "server/supervisor/event_loop.h"

#include <unistd.h>

#include <thread>
#include <vector>

#include "core/base/message_channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace accel::supervisor {
namespace {

using testing::ElementsAre;

TEST(EventLoopTest, TimersFireInOrderOfTheirDeadlines) {
  EventLoop loop;
  std::vector<int> fired;
  loop.RunAfter(absl::Milliseconds(3), [&] {
    fired.push_back(3);
    loop.Stop();
  });
  loop.RunAfter(absl::Milliseconds(1), [&] { fired.push_back(1); });
  const auto cancelled = loop.RunAfter(absl::Milliseconds(2), [&] { fired.push_back(2); });
  loop.Cancel(cancelled);
  loop.Cancel(cancelled);
  loop.Run();
  EXPECT_THAT(fired, ElementsAre(1, 3));
}

TEST(EventLoopTest, TimerMayCancelAnotherThatIsDue) {
  EventLoop loop;
  EventLoop::TimerId second = 0;
  bool fired = false;
  loop.RunAfter(absl::ZeroDuration(), [&] {
    loop.Cancel(second);
    loop.RunAfter(absl::Milliseconds(1), [&] { loop.Stop(); });
  });
  second = loop.RunAfter(absl::ZeroDuration(), [&] { fired = true; });
  loop.Run();
  EXPECT_FALSE(fired);
}

TEST(EventLoopTest, PostWakesTheLoopFromAnotherThread) {
  EventLoop loop;
  std::thread::id ran_in;
  std::thread poster([&] {
    loop.Post([&] {
      ran_in = std::this_thread::get_id();
      loop.Stop();
    });
  });
  loop.Run();
  poster.join();
  EXPECT_EQ(ran_in, std::this_thread::get_id());
}

TEST(EventLoopTest, WatchedDescriptorCallsBackUntilUnwatched) {
  EventLoop loop;
  auto pair = *MakeSocketPair();
  int calls = 0;
  loop.Watch(pair.first.get(), POLLIN, [&](short revents) {
    EXPECT_EQ(revents, POLLIN);
    char byte;
    ASSERT_EQ(read(pair.first.get(), &byte, 1), 1);
    if (++calls == 3) {
      loop.Unwatch(pair.first.get());
      loop.Post([&] { loop.Stop(); });
    }
  });
  ASSERT_EQ(write(pair.second.get(), "abcd", 4), 4);
  loop.Run();
  EXPECT_EQ(calls, 3);
}

TEST(EventLoopTest, SetEventsChangesWhatIsWaitedFor) {
  EventLoop loop;
  auto pair = *MakeSocketPair();
  loop.Watch(pair.first.get(), POLLIN, [&](short revents) {
    EXPECT_EQ(revents, POLLOUT);
    loop.Stop();
  });
  loop.SetEvents(pair.first.get(), POLLIN | POLLOUT);
  loop.Run();
}

TEST(EventLoopTest, DescriptorThatTakesAClosedOnesNumberIsNotCalledForIt) {
  EventLoop loop;
  auto first = *MakeSocketPair();
  auto second = *MakeSocketPair();
  ASSERT_LT(first.first.get(), second.first.get());
  const int reused = second.first.get();
  bool called = false;
  loop.Watch(first.first.get(), POLLIN, [&](short) {
    loop.Unwatch(first.first.get());
    // Another descriptor takes the number, in the same round.
    loop.Unwatch(reused);
    second.first.Reset();
    auto third = *MakeSocketPair();
    ASSERT_EQ(third.first.get(), reused);
    second.first = std::move(third.first);
    loop.Watch(reused, POLLIN, [&](short) { called = true; });
    loop.Post([&] { loop.Stop(); });
    third.second.Release();  // stays open: nothing is pending on the new one
  });
  loop.Watch(reused, POLLIN, [&](short) { called = true; });
  ASSERT_EQ(write(first.second.get(), "a", 1), 1);
  ASSERT_EQ(write(second.second.get(), "b", 1), 1);
  loop.Run();
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace accel::supervisor
