#include "server/supervisor/message_connection.h"

#include <sys/socket.h>

#include <string>
#include <thread>
#include <vector>

#include "accel/internal/v1/worker.pb.h"
#include "core/base/message_channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace accel::supervisor {
namespace {

using accel::internal::v1::WorkerFailure;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr size_t kMaxBytes = 1 << 20;

WorkerFailure Message(std::string text) {
  WorkerFailure message;
  message.set_message(std::move(text));
  return message;
}

class MessageConnectionTest : public testing::Test {
 protected:
  MessageConnectionTest() : MessageConnectionTest(*MakeSocketPair()) {}

  absl::Status Read() {
    return connection_.ReadAvailable([this](absl::string_view frame) {
      WorkerFailure message;
      if (!message.ParseFromArray(frame.data(), static_cast<int>(frame.size()))) {
        return absl::InvalidArgumentError("not a message");
      }
      received_.push_back(message.message());
      return absl::OkStatus();
    });
  }

  void SendRaw(absl::string_view bytes) {
    ASSERT_EQ(send(peer_->fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }

  MessageConnection connection_;
  std::unique_ptr<MessageChannel> peer_;
  std::vector<std::string> received_;

 private:
  explicit MessageConnectionTest(std::pair<Fd, Fd> pair)
      : connection_(std::move(pair.first), kMaxBytes),
        peer_(std::make_unique<MessageChannel>(std::move(pair.second))) {}
};

TEST_F(MessageConnectionTest, NothingToReadIsNoError) {
  EXPECT_TRUE(Read().ok());
  EXPECT_THAT(received_, IsEmpty());
}

TEST_F(MessageConnectionTest, TakesSeveralMessagesAtOnce) {
  ASSERT_TRUE(peer_->Send(Message("a")).ok());
  ASSERT_TRUE(peer_->Send(Message("")).ok());
  ASSERT_TRUE(peer_->Send(Message(std::string(70000, 'x'))).ok());
  EXPECT_TRUE(Read().ok());
  EXPECT_THAT(received_, ElementsAre("a", "", std::string(70000, 'x')));
}

TEST_F(MessageConnectionTest, KeepsAMessageThatComesInPieces) {
  const std::string body = Message("pieces").SerializeAsString();
  const std::string frame =
      std::string(1, static_cast<char>(body.size())) + std::string(3, '\0') + body;
  for (const char byte : frame) {
    EXPECT_THAT(received_, IsEmpty());
    SendRaw(std::string(1, byte));
    ASSERT_TRUE(Read().ok());
  }
  EXPECT_THAT(received_, ElementsAre("pieces"));
}

TEST_F(MessageConnectionTest, EndOfThePeerComesAfterItsMessages) {
  ASSERT_TRUE(peer_->Send(Message("last")).ok());
  peer_.reset();
  EXPECT_TRUE(absl::IsOutOfRange(Read()));
  EXPECT_THAT(received_, ElementsAre("last"));
}

TEST_F(MessageConnectionTest, EndWithinAMessage) {
  SendRaw("\x05");
  peer_.reset();
  EXPECT_TRUE(absl::IsUnavailable(Read()));
}

TEST_F(MessageConnectionTest, TooLongAMessageIsRefusedByItsLength) {
  SendRaw(absl::string_view("\x01\x00\x10\x00", 4));  // one byte more than allowed
  EXPECT_TRUE(absl::IsDataLoss(Read()));
}

TEST_F(MessageConnectionTest, ErrorOfTheReaderIsPassedOn) {
  SendRaw(absl::string_view("\x01\0\0\0\xff", 5));
  EXPECT_TRUE(absl::IsInvalidArgument(Read()));
}

TEST_F(MessageConnectionTest, SendNeverBlocksAndFlushGoesOn) {
  const std::string text(400000, 'y');
  ASSERT_TRUE(connection_.Send(Message(text)).ok());
  EXPECT_TRUE(connection_.has_unsent());
  EXPECT_TRUE(absl::IsResourceExhausted(connection_.Send(Message(std::string(1000000, 'z')))));
  std::thread reader([this] {
    WorkerFailure message;
    ASSERT_TRUE(peer_->Receive(&message).ok());
    received_.push_back(message.message());
  });
  while (connection_.has_unsent()) ASSERT_TRUE(connection_.Flush().ok());
  reader.join();
  EXPECT_THAT(received_, ElementsAre(text));
}

TEST_F(MessageConnectionTest, SendToAPeerThatIsGone) {
  peer_.reset();
  EXPECT_TRUE(absl::IsUnavailable(connection_.Send(Message("a"))));
}

TEST_F(MessageConnectionTest, ClosedOutputEndsThePeersReadingOnly) {
  connection_.CloseOutput();
  WorkerFailure message;
  EXPECT_TRUE(absl::IsOutOfRange(peer_->Receive(&message)));
  ASSERT_TRUE(peer_->Send(Message("still here")).ok());
  EXPECT_TRUE(Read().ok());
  EXPECT_THAT(received_, SizeIs(1));
}

}  // namespace
}  // namespace accel::supervisor
