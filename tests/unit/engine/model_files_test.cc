#include "core/engine/checkpoint/model_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/engine/checkpoint/json_file.h"
#include "tests/unit/engine/data_files.h"

namespace accel::engine {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

// Each row of `a`, `c` and `d` has 40 bytes.
NamedTensors Weights() {
  return {{"a", torch::arange(20.f).view({2, 10})},
          {"b", torch::arange(100.f)},
          {"c", torch::arange(10.f) + 0.5},
          {"d", torch::arange(30.f).view({3, 10}) * -1}};
}

class ModelFilesTest : public DataFilesTest {
 protected:
  void Save(int64_t max_shard_bytes, const NamedTensors& weights = Weights()) {
    const absl::Status status = WriteModelFiles(folder_, weights, max_shard_bytes);
    ASSERT_TRUE(status.ok()) << status;
  }

  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.insert(entry.path().filename());
    }
    return names;
  }

  // Zeros in the shapes of Weights().
  static NamedTensors Target() {
    NamedTensors target;
    for (const auto& [name, tensor] : Weights()) {
      target.emplace_back(name, torch::zeros_like(tensor));
    }
    return target;
  }

  void ExpectLoads() {
    const NamedTensors target = Target();
    const absl::Status status = LoadModelFolder(folder_, target);
    ASSERT_TRUE(status.ok()) << status;
    const NamedTensors weights = Weights();
    for (size_t i = 0; i < weights.size(); ++i) {
      EXPECT_TRUE(torch::equal(target[i].second, weights[i].second)) << weights[i].first;
    }
  }

  // Expects a refusal that leaves the target alone.
  void ExpectRefused(const std::string& reason) {
    const NamedTensors target = Target();
    const absl::Status status = LoadModelFolder(folder_, target);
    EXPECT_THAT(status.message(), HasSubstr(reason));
    for (const auto& [name, tensor] : target) EXPECT_FALSE(tensor.any().item<bool>()) << name;
  }

  nlohmann::json Index() const { return *ReadJson(folder_ / "model.safetensors.index.json"); }
  void PutIndex(const nlohmann::json& index) {
    Write("model.safetensors.index.json", index.dump());
  }
};

TEST_F(ModelFilesTest, SmallModelIsOneFile) {
  Save(640);
  EXPECT_THAT(Names(), ElementsAre("model.safetensors"));
  ExpectLoads();
}

TEST_F(ModelFilesTest, LargerOneIsCutBetweenTensors) {
  Save(160);
  // b is larger than a shard: one of its own, while the one of a goes on.
  EXPECT_THAT(Names(),
              ElementsAre("model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                          "model-00003-of-00003.safetensors", "model.safetensors.index.json"));
  EXPECT_EQ(Index(), (nlohmann::json{{"metadata", {{"total_size", 640}}},
                                     {"weight_map",
                                      {{"a", "model-00002-of-00003.safetensors"},
                                       {"b", "model-00001-of-00003.safetensors"},
                                       {"c", "model-00002-of-00003.safetensors"},
                                       {"d", "model-00003-of-00003.safetensors"}}}}));
  ExpectLoads();
}

TEST_F(ModelFilesTest, LoadedWeightsMayHaveOtherFloatsWhereTheJobStarts) {
  NamedTensors weights = Weights();
  for (auto& [name, tensor] : weights) tensor = tensor.to(torch::kDouble);
  Save(1 << 20, weights);
  ExpectRefused("a is Double [2, 10] and must be Float [2, 10]");
  const NamedTensors target = Target();
  const absl::Status status = LoadInitialWeights("data/model.safetensors", roots_, target);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(torch::equal(target[3].second, Weights()[3].second));
}

TEST_F(ModelFilesTest, InitialWeightsAreAFileOrAFolder) {
  fs::create_directory(folder_ / "saved");
  for (const int64_t max_bytes : {int64_t{1} << 20, int64_t{160}}) {
    fs::remove_all(folder_ / "saved");
    fs::create_directory(folder_ / "saved");
    ASSERT_TRUE(WriteModelFiles(folder_ / "saved", Weights(), max_bytes).ok());
    const NamedTensors target = Target();
    const absl::Status status = LoadInitialWeights("data/saved", roots_, target);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(torch::equal(target[1].second, Weights()[1].second));
  }
  const NamedTensors target = Target();
  const absl::Status one =
      LoadInitialWeights("data/saved/model-00001-of-00003.safetensors", roots_, target);
  EXPECT_THAT(one.message(), HasSubstr("missing: a Float [2, 10], c Float [10], d Float [3, 10]"));
  EXPECT_EQ(LoadInitialWeights("data/none", roots_, target).code(), absl::StatusCode::kNotFound);
}

TEST_F(ModelFilesTest, AnotherModelIsNamedTensorByTensor) {
  NamedTensors weights = Weights();
  weights[0].first = "z";
  weights[2].second = torch::ones({11});
  Save(1 << 20, weights);
  ExpectRefused(absl::StrCat(folder_.string(),
                             " is of another model: missing: a Float [2, 10]; "
                             "unexpected: z; of another shape or type: c is Float [11] and must "
                             "be Float [10]"));
}

TEST_F(ModelFilesTest, FolderWithoutOrWithTwoModelsIsRefused) {
  ExpectRefused("has neither model.safetensors nor model.safetensors.index.json");
  Save(160);
  Save(640);
  ExpectRefused("has model.safetensors and model.safetensors.index.json");
}

TEST_F(ModelFilesTest, IndexMustTellTheTruth) {
  Save(160);
  const nlohmann::json index = Index();
  const auto with = [&](const std::string& tensor, const nlohmann::json& file) {
    nlohmann::json changed = index;
    changed["weight_map"][tensor] = file;
    PutIndex(changed);
  };
  with("c", "model-00003-of-00003.safetensors");
  ExpectRefused("model-00002-of-00003.safetensors: has tensor c, which the index does not say");
  with("e", "model-00003-of-00003.safetensors");
  ExpectRefused("model-00003-of-00003.safetensors: has no tensor e, which the index says");
  with("e", "../model.safetensors");
  ExpectRefused("\"../model.safetensors\", which is no file beside the index");
  with("e", 3);
  ExpectRefused("a value that is no string");
  with("e", "model-00004-of-00003.safetensors");
  ExpectRefused("model-00004-of-00003.safetensors");
  PutIndex({{"metadata", 1}});
  ExpectRefused("has no weight_map");
  Write("model.safetensors.index.json", "{\"weight_map\": {");
  ExpectRefused("is no index of shards");

  PutIndex(index);
  fs::resize_file(folder_ / "model-00003-of-00003.safetensors", 100);
  ExpectRefused("model-00003-of-00003.safetensors");
}

TEST_F(ModelFilesTest, TensorIsInOneShardOnly) {
  Save(160);
  nlohmann::json index = Index();
  index["weight_map"]["x"] = "more.safetensors";
  PutIndex(index);
  ASSERT_TRUE(WriteSafetensors(folder_ / "more.safetensors",
                               {{"a", torch::ones({1})}, {"x", torch::ones({1})}})
                  .ok());
  ExpectRefused("more.safetensors: tensor a is in two shards");
}

}  // namespace
}  // namespace accel::engine
