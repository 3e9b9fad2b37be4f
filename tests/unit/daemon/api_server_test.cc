// Health and reflection.
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "tests/unit/daemon/daemon_fixture.h"

namespace accel::daemon {
namespace {

// The health service's messages in the wire format: field 1 of the request is the service's name,
// field 1 of the response its status.
std::string HealthRequest(const std::string& service) {
  return service.empty() ? ""
                         : "\x0a" + std::string(1, static_cast<char>(service.size())) + service;
}
constexpr char kServing[] = "\x08\x01";
constexpr char kNotServing[] = "\x08\x02";

grpc::ByteBuffer ToBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}
std::string ToString(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  buffer.Dump(&slices);
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// A call whose messages are bytes, one event at a time.
class RawCall {
 public:
  RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method)
      : stub_(channel), call_(stub_.PrepareCall(&context_, method, &queue_)) {
    call_->StartCall(this);
    Next();
  }
  ~RawCall() {
    context_.TryCancel();
    queue_.Shutdown();
    void* tag;
    bool ok;
    while (queue_.Next(&tag, &ok)) {
    }
  }
  void Write(const std::string& bytes) {
    call_->WriteLast(ToBuffer(bytes), grpc::WriteOptions(), this);
    Next();
  }
  // "end" when there is no further message.
  std::string Read() {
    grpc::ByteBuffer buffer;
    call_->Read(&buffer, this);
    return Next() ? ToString(buffer) : "end";
  }
  grpc::Status Finish() {
    grpc::Status status;
    call_->Finish(&status, this);
    Next();
    return status;
  }

 private:
  bool Next() {
    void* tag;
    bool ok = false;
    queue_.Next(&tag, &ok);
    return ok;
  }

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  grpc::GenericStub stub_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

using ApiServerTest = DaemonTest;

TEST_F(ApiServerTest, EveryServiceIsHealthy) {
  for (const char* const service :
       {"", "accel.v1.JobService", "accel.v1.TelemetryService", "accel.v1.CheckpointService",
        "accel.v1.NodeService", "accel.v1.ProfileService"}) {
    RawCall check(client_->channel(), "/grpc.health.v1.Health/Check");
    check.Write(HealthRequest(service));
    EXPECT_EQ(check.Read(), kServing) << service;
  }
  RawCall check(client_->channel(), "/grpc.health.v1.Health/Check");
  check.Write(HealthRequest("nobody"));
  EXPECT_EQ(check.Read(), "end");
  EXPECT_EQ(check.Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ApiServerTest, WatchersSeeTheDrain) {
  RawCall watch(client_->channel(), "/grpc.health.v1.Health/Watch");
  watch.Write(HealthRequest("accel.v1.JobService"));
  EXPECT_EQ(watch.Read(), kServing);
  daemon_->Drain();
  EXPECT_EQ(watch.Read(), kNotServing);
  daemon_.reset();
}

TEST_F(ApiServerTest, ReflectionListsTheServices) {
  RawCall call(client_->channel(),
               "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo");
  call.Write("\x3a\x01*");
  EXPECT_THAT(call.Read(), testing::HasSubstr("accel.v1.TelemetryService"));
}

}  // namespace
}  // namespace accel::daemon
