#ifndef ACCEL_TESTS_UNIT_CONFIG_VIOLATIONS_H_
#define ACCEL_TESTS_UNIT_CONFIG_VIOLATIONS_H_

#include <gmock/gmock.h>

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/errors.h"
#include "core/config/text_format.h"
#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"

namespace accel::config {

// The field violations of a status, by path; paths of several are joined with "; ".
inline std::map<std::string, std::string> ViolationsOf(const absl::Status& status) {
  std::map<std::string, std::string> result;
  google::rpc::BadRequest bad_request;
  const auto payload = status.GetPayload(kBadRequestTypeUrl);
  if (payload.has_value()) bad_request.ParseFromString(std::string(*payload));
  for (const auto& violation : bad_request.field_violations()) {
    std::string& text = result[violation.field()];
    absl::StrAppend(&text, text.empty() ? "" : "; ", violation.description());
  }
  return result;
}

inline std::map<std::string, std::string> ViolationsOf(const FieldViolations& violations) {
  return ViolationsOf(violations.ToStatus());
}

// Parses a text that must be right.
template <typename Message>
Message Parse(absl::string_view text) {
  Message message;
  const absl::Status status = ParseMessage(text, &message);
  EXPECT_TRUE(status.ok()) << status << "\n" << text;
  return message;
}

// A bad input with the one violation it must cause.
struct Refusal {
  const char* text;
  const char* path;
  const char* description;  // a part of it
};

inline void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.text; }

}  // namespace accel::config

#endif  // ACCEL_TESTS_UNIT_CONFIG_VIOLATIONS_H_
