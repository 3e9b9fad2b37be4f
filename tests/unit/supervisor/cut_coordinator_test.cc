#include "server/supervisor/cut_coordinator.h"

#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace accel::supervisor {
namespace {

using accel::internal::v1::Cut;
using accel::internal::v1::CutReply;
using accel::internal::v1::ToWorker;
using testing::IsEmpty;
using testing::SizeIs;

class CutCoordinatorTest : public testing::Test {
 protected:
  void Reply(int rank, int64_t cut_id, int64_t ticks) {
    CutReply reply;
    reply.set_cut_id(cut_id);
    reply.set_ticks_begun(ticks);
    cuts_.OnReply(rank, reply);
  }

  std::vector<ToWorker> sent_;
  CutCoordinator cuts_{3, [this](const ToWorker& message) { sent_.push_back(message); }};
};

TEST_F(CutCoordinatorTest, CutsAtTheGreatestTick) {
  cuts_.Request(Cut::CHECKPOINT);
  ASSERT_THAT(sent_, SizeIs(1));
  EXPECT_EQ(sent_[0].prepare_cut().cut_id(), 1);
  Reply(0, 1, 10);
  Reply(2, 1, 12);
  EXPECT_THAT(sent_, SizeIs(1));
  Reply(1, 1, 11);
  ASSERT_THAT(sent_, SizeIs(2));
  EXPECT_EQ(sent_[1].cut().cut_id(), 1);
  EXPECT_EQ(sent_[1].cut().tick(), 12);
  EXPECT_EQ(sent_[1].cut().action(), Cut::CHECKPOINT);
}

TEST_F(CutCoordinatorTest, LateAndRepeatedRepliesCountOnce) {
  cuts_.Request(Cut::CHECKPOINT);
  for (int rank : {0, 1, 2}) Reply(rank, 1, 5);
  cuts_.Request(Cut::CHECKPOINT);
  EXPECT_EQ(sent_[2].prepare_cut().cut_id(), 2);
  Reply(0, 1, 99);
  Reply(0, 2, 6);
  Reply(0, 2, 6);
  Reply(1, 2, 6);
  EXPECT_THAT(sent_, SizeIs(3));
  Reply(2, 2, 6);
  EXPECT_EQ(sent_[3].cut().tick(), 6);
}

TEST_F(CutCoordinatorTest, CheckpointJoinsTheCutBeingAgreed) {
  cuts_.Request(Cut::CHECKPOINT);
  cuts_.Request(Cut::CHECKPOINT);
  for (int rank : {0, 1, 2}) Reply(rank, 1, 5);
  EXPECT_THAT(sent_, SizeIs(2));
}

TEST_F(CutCoordinatorTest, StopTakesThePlaceOfACheckpointAndIsTheLast) {
  cuts_.Request(Cut::CHECKPOINT);
  Reply(0, 1, 5);
  cuts_.Request(Cut::STOP);
  cuts_.Request(Cut::CHECKPOINT);
  Reply(1, 1, 5);
  Reply(2, 1, 5);
  ASSERT_THAT(sent_, SizeIs(2));
  EXPECT_EQ(sent_[1].cut().action(), Cut::STOP);
  cuts_.Request(Cut::CHECKPOINT);
  cuts_.Request(Cut::STOP);
  EXPECT_THAT(sent_, SizeIs(2));
}

TEST_F(CutCoordinatorTest, RankThatFinishedHoldsUpNoOther) {
  cuts_.Request(Cut::CHECKPOINT);
  Reply(0, 1, 5);
  Reply(1, 1, 5);
  cuts_.OnFinished(2);
  ASSERT_THAT(sent_, SizeIs(2));
  EXPECT_EQ(sent_[1].cut().tick(), std::numeric_limits<int64_t>::max());
  cuts_.Request(Cut::STOP);
  Reply(0, 2, 6);
  Reply(1, 2, 6);
  ASSERT_THAT(sent_, SizeIs(4));
  EXPECT_EQ(sent_[3].cut().tick(), std::numeric_limits<int64_t>::max());
}

TEST_F(CutCoordinatorTest, ReplyWithoutACutIsIgnored) {
  Reply(0, 0, 5);
  Reply(0, 1, 5);
  EXPECT_THAT(sent_, IsEmpty());
}

}  // namespace
}  // namespace accel::supervisor
