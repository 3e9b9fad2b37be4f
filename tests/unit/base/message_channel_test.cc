#include "core/base/message_channel.h"

#include <sys/socket.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "accel/internal/v1/worker.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace accel {
namespace {

using accel::internal::v1::PrepareCut;
using accel::internal::v1::WorkerFailure;

class MessageChannelTest : public testing::Test {
 protected:
  MessageChannelTest() {
    auto pair = *MakeSocketPair();
    left_ = std::make_unique<MessageChannel>(std::move(pair.first));
    right_ = std::make_unique<MessageChannel>(std::move(pair.second));
  }

  static WorkerFailure Message(std::string text) {
    WorkerFailure message;
    message.set_message(std::move(text));
    return message;
  }

  std::unique_ptr<MessageChannel> left_;
  std::unique_ptr<MessageChannel> right_;
};

TEST_F(MessageChannelTest, DeliversMessagesWholeAndInOrder) {
  const std::string large(1 << 20, 'x');  // more than a socket's buffer
  std::thread sender([&] {
    EXPECT_TRUE(left_->Send(Message("")).ok());
    EXPECT_TRUE(left_->Send(Message(large)).ok());
    EXPECT_TRUE(left_->Send(Message("last")).ok());
  });
  WorkerFailure message;
  for (const std::string& expected : {std::string(), large, std::string("last")}) {
    ASSERT_TRUE(right_->Receive(&message).ok());
    EXPECT_EQ(message.message(), expected);
  }
  sender.join();
}

TEST_F(MessageChannelTest, ManySendersDoNotMixTheirMessages) {
  constexpr int kSenders = 4;
  constexpr int kEach = 200;
  std::vector<std::thread> senders;
  for (int i = 0; i < kSenders; ++i) {
    senders.emplace_back([this, i] {
      for (int n = 0; n < kEach; ++n) {
        EXPECT_TRUE(left_->Send(Message(std::string(1000 + n, static_cast<char>('a' + i)))).ok());
      }
    });
  }
  int received[kSenders] = {};
  for (int n = 0; n < kSenders * kEach; ++n) {
    WorkerFailure message;
    ASSERT_TRUE(right_->Receive(&message).ok());
    const std::string& text = message.message();
    const int sender = text[0] - 'a';
    EXPECT_EQ(text, std::string(1000 + received[sender]++, text[0]));
  }
  for (std::thread& sender : senders) sender.join();
}

TEST_F(MessageChannelTest, OrderlyEndComesAfterTheLastMessage) {
  ASSERT_TRUE(left_->Send(Message("last")).ok());
  left_.reset();
  WorkerFailure message;
  ASSERT_TRUE(right_->Receive(&message).ok());
  EXPECT_TRUE(absl::IsOutOfRange(right_->Receive(&message)));
}

TEST_F(MessageChannelTest, PeerThatClosedWithUnreadDataHasEnded) {
  ASSERT_TRUE(right_->Send(Message("never read")).ok());
  left_.reset();
  WorkerFailure message;
  EXPECT_TRUE(absl::IsOutOfRange(right_->Receive(&message)));
}

TEST_F(MessageChannelTest, SendToAPeerThatIsGoneIsAnErrorAndNoSignal) {
  left_.reset();
  EXPECT_TRUE(absl::IsUnavailable(right_->Send(Message("x"))));
}

TEST_F(MessageChannelTest, BrokenOffMessageIsDataLoss) {
  for (const absl::string_view bytes :
       {absl::string_view("\x05\0", 2), absl::string_view("\x05\0\0\0ab", 6)}) {
    auto pair = *MakeSocketPair();
    ASSERT_EQ(send(pair.first.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    pair.first.Reset();
    MessageChannel channel(std::move(pair.second));
    WorkerFailure message;
    EXPECT_TRUE(absl::IsDataLoss(channel.Receive(&message)));
  }
}

TEST_F(MessageChannelTest, LengthBeyondTheLimitIsDataLossBeforeMemoryIsTaken) {
  ASSERT_EQ(send(left_->fd(), "\xff\xff\xff\xff", 4, 0), 4);
  WorkerFailure message;
  EXPECT_TRUE(absl::IsDataLoss(right_->Receive(&message)));
}

TEST_F(MessageChannelTest, ContentsOfAnotherTypeAreDataLoss) {
  ASSERT_EQ(send(left_->fd(), "\x01\0\0\0\xff", 5, 0), 5);
  PrepareCut message;
  EXPECT_TRUE(absl::IsDataLoss(right_->Receive(&message)));
}

TEST_F(MessageChannelTest, TooLargeAMessageIsNotSent) {
  const std::string text(MessageChannel::kMaxMessageBytes + 1, 'x');
  EXPECT_TRUE(absl::IsResourceExhausted(left_->Send(Message(text))));
}

TEST_F(MessageChannelTest, ShutdownWakesAReceiver) {
  std::thread receiver([this] {
    WorkerFailure message;
    EXPECT_FALSE(right_->Receive(&message).ok());
  });
  right_->Shutdown();
  receiver.join();
  EXPECT_TRUE(absl::IsUnavailable(right_->Send(Message("x"))));
}

}  // namespace
}  // namespace accel
