// Page tokens, resource names, request ids, and how errors become answers.
#include <set>

#include "core/base/errors.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"
#include "server/daemon/exit_codes.h"
#include "server/daemon/grpc_status.h"
#include "server/daemon/paging.h"
#include "server/daemon/request_key.h"
#include "server/daemon/resource_names.h"

namespace accel::daemon {
namespace {

google::rpc::Status Details(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  return details;
}

TEST(PagingTest, SizesHaveDefaultAndCap) {
  EXPECT_EQ(*EffectivePageSize(0), 50);
  EXPECT_EQ(*EffectivePageSize(7), 7);
  EXPECT_EQ(*EffectivePageSize(5000), 1000);
  EXPECT_EQ(EffectivePageSize(-1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PagingTest, TokenLeadsBackToItsPosition) {
  EXPECT_EQ(*ParsePageToken(MakePageToken("filter", 42), "filter", 0), 42);
  EXPECT_EQ(*ParsePageToken("", "filter", 99), 99);
}

TEST(PagingTest, TokenOfAnotherFilterIsRefused) {
  EXPECT_FALSE(ParsePageToken(MakePageToken("one", 42), "other", 0).ok());
}

TEST(PagingTest, AnyOtherTextIsRefused) {
  for (const char* const text : {"x", "????", "NDI=", "OjQy"}) {
    const auto position = ParsePageToken(text, "filter", 0);
    EXPECT_EQ(position.status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(ResourceNamesTest, JobNames) {
  EXPECT_EQ(*ParseJobName("jobs/mnist-2"), "mnist-2");
  for (const char* const name : {"", "mnist", "jobs/", "jobs/Mnist", "jobs/a/b", "jobs/../x"}) {
    EXPECT_EQ(ReasonOf(ParseJobName(name).status()), "INVALID_FIELDS") << name;
  }
}

TEST(ResourceNamesTest, CheckpointNames) {
  const auto name = ParseCheckpointName("jobs/a/checkpoints/12");
  EXPECT_EQ(name->job_id, "a");
  EXPECT_EQ(name->number, 12);
  for (const char* const text :
       {"jobs/a", "jobs/a/checkpoints/", "jobs/a/checkpoints/-1", "jobs/a/checkpoints/01",
        "jobs/a/checkpoints/x", "jobs/a/traces/1"}) {
    EXPECT_FALSE(ParseCheckpointName(text).ok()) << text;
  }
}

TEST(ResourceNamesTest, GeneratedIdsAreValidAndDiffer) {
  std::set<std::string> ids;
  for (int i = 0; i < 100; ++i) {
    const std::string id = GenerateJobId();
    EXPECT_EQ(id.size(), 12u);
    EXPECT_TRUE(ParseJobName(JobName(id)).ok()) << id;
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 100u);
  EXPECT_EQ(GenerateUid().size(), 36u);
}

TEST(RequestKeyTest, LongOrUnprintableIdsAreRefused) {
  for (const std::string& id : {std::string(65, 'a'), std::string("a b"), std::string("\x01")}) {
    FieldViolations violations;
    ValidateRequestId(id, &violations);
    EXPECT_FALSE(violations.empty()) << id;
  }
  FieldViolations violations;
  ValidateRequestId("6f9619ff-8b86-d011-b42d-00cf4fc964ff", &violations);
  EXPECT_TRUE(violations.empty());
}

TEST(GrpcStatusTest, CarriesEveryViolationAndOneErrorInfo) {
  FieldViolations violations;
  violations.Add("loop.num_epochs", "got 0; must be at least 1");
  violations.Add("data.batch_size", "is required");
  const grpc::Status status = ToGrpcStatus(violations.ToStatus());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const google::rpc::Status details = Details(status);
  EXPECT_EQ(details.code(), 3);
  EXPECT_EQ(details.message(), status.error_message());
  int infos = 0;
  google::rpc::BadRequest bad_request;
  for (const auto& any : details.details()) {
    infos += any.Is<google::rpc::ErrorInfo>();
    any.UnpackTo(&bad_request);
  }
  EXPECT_EQ(infos, 1);
  ASSERT_EQ(bad_request.field_violations_size(), 2);
  EXPECT_EQ(bad_request.field_violations(0).field(), "loop.num_epochs");
}

TEST(GrpcStatusTest, EveryErrorHasAReason) {
  const google::rpc::Status details = Details(ToGrpcStatus(absl::DataLossError("torn")));
  ASSERT_EQ(details.details_size(), 1);
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(details.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "DATA_LOSS");
  EXPECT_EQ(info.domain(), "accel.v1");
}

TEST(GrpcStatusTest, OkHasNoDetails) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).error_details().empty());
}

TEST(GrpcStatusTest, DrainingSaysWhereToGoOn) {
  const google::rpc::Status details = Details(ToGrpcStatus(Draining(17)));
  google::rpc::ErrorInfo info;
  ASSERT_TRUE(details.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "NODE_DRAINING");
  EXPECT_EQ(info.metadata().at("sequence"), "17");
}

TEST(ExitCodesTest, FollowTheReason) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeOf(absl::InternalError("x")), 1);
  EXPECT_EQ(ExitCodeOf(WithErrorInfo(absl::AlreadyExistsError("x"), kReasonStateLocked)), 3);
  EXPECT_EQ(ExitCodeOf(WithErrorInfo(absl::AlreadyExistsError("x"), kReasonAddressInUse)), 4);
}

}  // namespace
}  // namespace accel::daemon
