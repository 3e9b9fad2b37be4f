#include "core/base/errors.h"

#include <string>

#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"

namespace accel {
namespace {

using testing::HasSubstr;

template <typename Detail>
Detail Payload(const absl::Status& status, absl::string_view type_url) {
  Detail detail;
  const auto payload = status.GetPayload(type_url);
  EXPECT_TRUE(payload.has_value()) << status;
  EXPECT_TRUE(detail.ParseFromString(std::string(payload.value_or(absl::Cord()))));
  return detail;
}

google::rpc::ErrorInfo Info(const absl::Status& status) {
  return Payload<google::rpc::ErrorInfo>(status, kErrorInfoTypeUrl);
}

TEST(ErrorsTest, ErrorInfoCarriesReasonDomainAndMetadata) {
  const absl::Status status =
      WithErrorInfo(absl::NotFoundError("no job a"), "JOB_NOT_FOUND", {{"job", "a"}});
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(status.message(), "no job a");
  EXPECT_EQ(Info(status).reason(), "JOB_NOT_FOUND");
  EXPECT_EQ(Info(status).domain(), "accel.v1");
  EXPECT_EQ(Info(status).metadata().at("job"), "a");
}

TEST(ErrorsTest, NotImplementedNamesTheFeature) {
  const absl::Status status = NotImplemented("PauseJob");
  EXPECT_TRUE(absl::IsUnimplemented(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("PauseJob"));
  EXPECT_EQ(Info(status).reason(), "NOT_IMPLEMENTED");
  EXPECT_EQ(Info(status).metadata().at("feature"), "PauseJob");
}

TEST(FieldViolationsTest, NothingAddedIsOk) {
  FieldViolations violations;
  EXPECT_TRUE(violations.empty());
  EXPECT_TRUE(violations.ToStatus().ok());
}

TEST(FieldViolationsTest, AllMistakesAreToldAtOnce) {
  FieldViolations violations;
  violations.Add("loop.num_epochs", "is 0; allowed are 1 to 1000000");
  violations.AddNotImplemented("accelerator.mixed_precision=\"bf16\"");
  violations.Add("data.batch_size", "is missing");
  const absl::Status status = violations.ToStatus();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(),
            "loop.num_epochs: is 0; allowed are 1 to 1000000; data.batch_size: is missing");
  const auto details = Payload<google::rpc::BadRequest>(status, kBadRequestTypeUrl);
  ASSERT_EQ(details.field_violations_size(), 2);
  EXPECT_EQ(details.field_violations(1).field(), "data.batch_size");
  EXPECT_EQ(details.field_violations(1).description(), "is missing");
  EXPECT_EQ(Info(status).reason(), "INVALID_FIELDS");
  EXPECT_EQ(Info(status).metadata().size(), 2u);
}

TEST(FieldViolationsTest, NotImplementedIsToldWhereNothingIsInvalid) {
  FieldViolations violations;
  violations.AddNotImplemented("first");
  violations.AddNotImplemented("second");
  EXPECT_FALSE(violations.empty());
  EXPECT_TRUE(absl::IsUnimplemented(violations.ToStatus()));
  EXPECT_EQ(Info(violations.ToStatus()).metadata().at("feature"), "first");
}

}  // namespace
}  // namespace accel
