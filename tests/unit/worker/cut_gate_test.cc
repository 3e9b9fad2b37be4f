#include "server/worker/cut_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace accel::worker {
namespace {

using accel::internal::v1::Cut;

Cut MakeCut(int64_t id, int64_t tick, Cut::Action action) {
  Cut cut;
  cut.set_cut_id(id);
  cut.set_tick(tick);
  cut.set_action(action);
  return cut;
}

void ExpectPasses(CutGate& gate, int ticks) {
  for (int i = 0; i < ticks; ++i) {
    const auto decision = gate.BeginTick();
    EXPECT_FALSE(decision.checkpoint || decision.stop);
  }
}

TEST(CutGate, CountsTicks) {
  CutGate gate;
  EXPECT_EQ(gate.Prepare(1), 0);
  ASSERT_TRUE(gate.Apply(MakeCut(1, 5, Cut::CHECKPOINT)).ok());
  ExpectPasses(gate, 3);
  EXPECT_EQ(gate.Prepare(2), 3);
}

TEST(CutGate, ActsBeforeTheTickAfterTheCutsOnce) {
  CutGate gate;
  ExpectPasses(gate, 2);
  gate.Prepare(1);
  ASSERT_TRUE(gate.Apply(MakeCut(1, 4, Cut::CHECKPOINT)).ok());
  ExpectPasses(gate, 2);
  EXPECT_TRUE(gate.BeginTick().checkpoint);
  ExpectPasses(gate, 3);
  EXPECT_EQ(gate.Prepare(2), 8);
}

TEST(CutGate, StopDoesNotCountATick) {
  CutGate gate;
  ExpectPasses(gate, 2);
  gate.Prepare(1);
  ASSERT_TRUE(gate.Apply(MakeCut(1, 2, Cut::STOP)).ok());
  EXPECT_TRUE(gate.StopRequested());
  EXPECT_FALSE(gate.StoppedBeforeFirstTick());
  const auto decision = gate.BeginTick();
  EXPECT_TRUE(decision.stop);
  EXPECT_FALSE(decision.checkpoint);
  EXPECT_EQ(gate.Prepare(2), 2);
}

TEST(CutGate, CheckpointAndStopMayMeet) {
  CutGate gate;
  gate.Prepare(1);
  ASSERT_TRUE(gate.Apply(MakeCut(1, 0, Cut::CHECKPOINT)).ok());
  gate.Prepare(2);
  ASSERT_TRUE(gate.Apply(MakeCut(2, 0, Cut::STOP)).ok());
  EXPECT_TRUE(gate.StoppedBeforeFirstTick());
  const auto decision = gate.BeginTick();
  EXPECT_TRUE(decision.checkpoint && decision.stop);
}

TEST(CutGate, NoTickBeginsBetweenPrepareAndCut) {
  CutGate gate;
  std::atomic<int> begun = 0;
  std::atomic<bool> stopped = false;
  std::thread trainer([&] {
    while (!gate.BeginTick().stop) ++begun;
    stopped = true;
  });
  while (begun < 100) std::this_thread::yield();
  const int64_t at = gate.Prepare(1);
  // Whatever the trainer did not yet count is the one tick that had begun.
  while (begun < at) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(begun, at);
  EXPECT_FALSE(stopped);
  ASSERT_TRUE(gate.Apply(MakeCut(1, at + 7, Cut::STOP)).ok());
  trainer.join();
  EXPECT_EQ(begun, at + 7);
}

TEST(CutGate, RanksAtDifferentTicksActAtTheSame) {
  CutGate slow;
  CutGate fast;
  ExpectPasses(slow, 3);
  ExpectPasses(fast, 4);
  const int64_t tick = std::max(slow.Prepare(1), fast.Prepare(1));
  ASSERT_TRUE(slow.Apply(MakeCut(1, tick, Cut::CHECKPOINT)).ok());
  ASSERT_TRUE(fast.Apply(MakeCut(1, tick, Cut::CHECKPOINT)).ok());
  ExpectPasses(slow, 1);
  EXPECT_TRUE(slow.BeginTick().checkpoint);
  EXPECT_TRUE(fast.BeginTick().checkpoint);
}

TEST(CutGate, RefusesCutsThatCannotBe) {
  CutGate gate;
  ExpectPasses(gate, 3);
  EXPECT_FALSE(gate.Apply(MakeCut(1, 2, Cut::STOP)).ok());
  EXPECT_FALSE(gate.Apply(MakeCut(1, 3, Cut::ACTION_UNSPECIFIED)).ok());
}

}  // namespace
}  // namespace accel::worker
