#include "server/daemon/admission_queue.h"

#include "gtest/gtest.h"

namespace accel::daemon {
namespace {

TEST(AdmissionQueueTest, AdmitsInOrderUpToTheLimit) {
  AdmissionQueue queue(4);
  queue.Enqueue("a", 2);
  queue.Enqueue("b", 2);
  queue.Enqueue("c", 1);
  EXPECT_EQ(queue.Admit(), "a");
  EXPECT_EQ(queue.Admit(), "b");
  EXPECT_EQ(queue.Admit(), std::nullopt);
  EXPECT_EQ(queue.ranks_in_use(), 4);
  queue.Release("a");
  EXPECT_EQ(queue.Admit(), "c");
  EXPECT_EQ(queue.ranks_in_use(), 3);
}

TEST(AdmissionQueueTest, NarrowJobDoesNotOvertakeAWideOne) {
  AdmissionQueue queue(2);
  queue.Enqueue("running", 1);
  EXPECT_EQ(queue.Admit(), "running");
  queue.Enqueue("wide", 2);
  queue.Enqueue("narrow", 1);
  EXPECT_EQ(queue.Admit(), std::nullopt);
  queue.Release("running");
  EXPECT_EQ(queue.Admit(), "wide");
}

TEST(AdmissionQueueTest, RemovedJobIsNotAdmitted) {
  AdmissionQueue queue(2);
  queue.Enqueue("a", 1);
  queue.Enqueue("b", 1);
  EXPECT_TRUE(queue.Remove("a"));
  EXPECT_FALSE(queue.Remove("a"));
  EXPECT_EQ(queue.Admit(), "b");
  EXPECT_EQ(queue.queued(), 0);
}

TEST(AdmissionQueueTest, RanksAreReleasedOnce) {
  AdmissionQueue queue(2);
  queue.Occupy("adopted", 3);
  EXPECT_EQ(queue.ranks_in_use(), 3);
  queue.Occupy("adopted", 3);
  EXPECT_EQ(queue.ranks_in_use(), 3);
  queue.Release("adopted");
  queue.Release("adopted");
  EXPECT_EQ(queue.ranks_in_use(), 0);
}

TEST(AdmissionQueueTest, PutBackIsFirstAgainAndFreesItsRanks) {
  AdmissionQueue queue(2);
  queue.Enqueue("a", 2);
  queue.Enqueue("b", 2);
  EXPECT_EQ(queue.Admit(), "a");
  queue.PutBack("a", 2);
  EXPECT_EQ(queue.ranks_in_use(), 0);
  EXPECT_EQ(queue.Admit(), "a");
}

}  // namespace
}  // namespace accel::daemon
