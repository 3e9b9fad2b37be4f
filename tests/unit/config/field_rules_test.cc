#include "core/config/field_rules.h"

#include "accel/v1/job.pb.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "tests/unit/config/violations.h"

namespace accel::config {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;

// A oneof has no lookup of its own in the pool.
bool Exists(absl::string_view rule_field) {
  const std::string name = absl::StrCat("accel.v1.", rule_field);
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  if (pool.FindFieldByName(name) != nullptr) return true;
  return pool.FindOneofByName(name) != nullptr;
}

TEST(FieldRulesTest, EveryRuleNamesAnExistingField) {
  accel::v1::JobSpec linked;  // links the descriptors in
  ASSERT_NE(linked.GetDescriptor(), nullptr);
  for (const FieldRule& rule : FieldRules()) EXPECT_TRUE(Exists(rule.field)) << rule.field;
}

TEST(FieldRulesTest, QuotedTextIsEscapedAndCut) {
  EXPECT_EQ(Quoted("a\nb"), "\"a\\nb\"");
  EXPECT_EQ(Quoted(std::string(100, 'x')), "\"" + std::string(64, 'x') + "...\"");
}

TEST(FieldRulesTest, ListsAndTextsWithoutALimitOfTheirOwnAreCapped) {
  accel::v1::AcceleratorConfig config;
  for (int i = 0; i < kDefaultMaxCount + 1; ++i) {
    config.mutable_ao_recipe_kwargs()->add_module_filter_func("*");
  }
  config.mutable_init_process_group_kwargs()->set_init_method(
      std::string(kDefaultMaxBytes + 1, 'x'));
  FieldViolations violations;
  CheckFields(config, "accelerator", &violations);
  const auto found = ViolationsOf(violations);
  EXPECT_EQ(found.size(), 2u);
  EXPECT_EQ(found.at("accelerator.ao_recipe_kwargs.module_filter_func"),
            "1001 values is not allowed; allowed: 0 to 1000");
  EXPECT_EQ(found.at("accelerator.init_process_group_kwargs.init_method"),
            "65537 bytes is not allowed; allowed: at most 65536");
}

}  // namespace
}  // namespace accel::config
