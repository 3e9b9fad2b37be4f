#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/config/byte_size.h"
#include "core/config/job_checks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/config/violations.h"

namespace accel::config {
namespace {

using accel::v1::JobSpec;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

std::map<std::string, std::string> Check(const std::string& text) {
  FieldViolations violations;
  CheckLoading(Parse<JobSpec>(text), &violations);
  return ViolationsOf(violations);
}

TEST(CheckLoadingTest, AcceptsWhatCanBeLoaded) {
  for (const char* text : {
           "{}",
           "data: {num_workers: 2, prefetch_factor: 4}",
           "{device: cuda, data: {pin_memory: true}}",
           "data: {train: {csv: {}}, streaming: {}}",
           "data: {train: {npy: {}}, streaming: {shuffle_buffer: 100}, shuffle: true}",
           "data: {train: {bytes: {}}, streaming: {}, shuffle: false}",
           "{data: {streaming: {}}, schedule: {linear: {total_steps: 9}}}",
           "{data: {streaming: {}}, schedule: {cosine: {}}, loop: {max_steps: 9}}",
           "{data: {streaming: {}}, schedule: {constant: {}}, loop: {num_epochs: 2}}",
           "{data: {streaming: {}}, accelerator: {dataloader_config: {dispatch_batches: false, "
           "even_batches: false}}}",
       }) {
    EXPECT_THAT(Check(text), IsEmpty()) << text;
  }
}

TEST(CheckLoadingTest, NamesTheFieldAndTheReason) {
  const auto expect = [](const std::string& text, const char* path, const char* reason) {
    EXPECT_THAT(Check(text), ElementsAre(Pair(path, HasSubstr(reason)))) << text;
  };
  expect("data: {prefetch_factor: 2}", "data.prefetch_factor", "without num_workers");
  expect("data: {pin_memory: true}", "data.pin_memory", "not allowed on a CPU");
  expect("data: {train: {idx: {}}, streaming: {}}", "data.streaming", "csv, npy, bytes");
  expect("data: {train: {safetensors: {}}, streaming: {}}", "data.streaming", "csv, npy, bytes");
  expect("data: {split: {}, streaming: {}}", "data.split", "not known beforehand");
  expect("data: {streaming: {}, shuffle: true}", "data.shuffle", "shuffle_buffer");
  expect("data: {streaming: {shuffle_buffer: 5}, shuffle: false}", "data.streaming.shuffle_buffer",
         "shuffle false");
  expect("{data: {streaming: {}}, accelerator: {dataloader_config: {use_seedable_sampler: true}}}",
         "accelerator.dataloader_config.use_seedable_sampler", "no sampler");
  expect("{data: {streaming: {}}, accelerator: {dataloader_config: {even_batches: false}}}",
         "accelerator.dataloader_config.even_batches", "unless dispatch_batches is false");
  for (const char* name : {"linear", "cosine", "cosine_with_restarts", "polynomial", "one_cycle"}) {
    expect(absl::StrCat("{data: {streaming: {}}, schedule: {", name, ": {}}}"),
           absl::StrCat("schedule.", name, ".total_steps").c_str(), "required");
  }
}

TEST(ParseByteSizeTest, TakesTheSizesOfSaveModel) {
  EXPECT_EQ(ParseByteSize("10GB"), 10'000'000'000);
  EXPECT_EQ(ParseByteSize("1.5 MiB"), 1'572'864);
  EXPECT_EQ(ParseByteSize(" 300kb "), 300'000);
  EXPECT_EQ(ParseByteSize("77"), 77);
  for (const char* text : {"", "GB", "0", "-1KB", "1e3", "1.5", "10 boxes", "0x10", "9999999TB"}) {
    EXPECT_EQ(ParseByteSize(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace accel::config
