#include "core/engine/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "core/engine/checkpoint/safetensors.h"
#include "core/engine/data/raw_tensors.h"
#include "core/engine/data/training_data.h"
#include "tests/unit/engine/data_files.h"

namespace accel::engine {
namespace {

using testing::ElementsAre;

std::string Bytes(std::initializer_list<int> values) { return {values.begin(), values.end()}; }

// A .npy file of version 1 or 2.
std::string Npy(absl::string_view header, absl::string_view data, int version = 1) {
  std::string file = "\x93NUMPY";
  file += Bytes(
      {version, 0, static_cast<int>(header.size() & 255), static_cast<int>(header.size() >> 8)});
  if (version > 1) file += Bytes({0, 0});
  return absl::StrCat(file, header, data);
}

std::string NpyFloats(absl::string_view shape, const std::vector<float>& values) {
  return Npy(absl::StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': ", shape, ", }\n"),
             absl::string_view(reinterpret_cast<const char*>(values.data()), values.size() * 4));
}

at::Tensor All(const Dataset& dataset) {
  return dataset.Get(torch::arange(dataset.size())).features;
}

class DatasetTest : public DataFilesTest {
 protected:
  absl::StatusOr<std::shared_ptr<const Dataset>> Load(TargetKind kind = TargetKind::kNumber) {
    return LoadDataset(spec_, kind, roots_);
  }

  accel::v1::Dataset spec_;
};

TEST_F(DatasetTest, CsvFeaturesAreNormalisedAndShaped) {
  spec_.set_file(Write("t.csv", "0,255,51,102,3\n255,0,0,0,1\n"));
  spec_.mutable_csv();
  spec_.mutable_normalization()->set_scale(1 / 255.0);
  spec_.mutable_normalization()->set_mean(0.5);
  spec_.mutable_normalization()->set_std(0.25);
  for (const int size : {1, 2, 2}) spec_.add_feature_shape(size);
  const auto data = Load(TargetKind::kClass);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->size(), 2);
  EXPECT_EQ((*data)->num_classes(), 4);
  EXPECT_THAT((*data)->feature_shape(), ElementsAre(1, 2, 2));
  EXPECT_THAT((*data)->target_shape(), ElementsAre());
  const Examples second = (*data)->Get(torch::tensor({int64_t{1}}));
  EXPECT_TRUE(torch::equal(second.targets, torch::tensor({int64_t{1}})));
  EXPECT_TRUE(
      torch::equal(second.features, torch::tensor({2.f, -2.f, -2.f, -2.f}).view({1, 1, 2, 2})));
}

TEST_F(DatasetTest, FeatureShapeMustFit) {
  spec_.set_file(Write("t.csv", "1,2,3\n"));
  spec_.mutable_csv();
  spec_.add_feature_shape(3);
  const absl::Status status = Load().status();
  EXPECT_EQ(status.message(), "feature_shape [3] has 3 values, data/t.csv has 2 in a sample");
}

TEST_F(DatasetTest, NpyTableGivesItsLastColumnAsTargets) {
  spec_.set_file(Write("t.npy", NpyFloats("(2, 3)", {1, 2, 3, 4, 5, 6})));
  spec_.mutable_npy();
  const auto data = Load();
  ASSERT_TRUE(data.ok()) << data.status();
  const Examples all = (*data)->Get(torch::arange(2));
  EXPECT_TRUE(torch::equal(all.features, torch::tensor({{1.f, 2.f}, {4.f, 5.f}})));
  EXPECT_TRUE(torch::equal(all.targets, torch::tensor({3.f, 6.f})));
}

TEST_F(DatasetTest, NpyTargetsOfTheirOwnFile) {
  spec_.set_file(Write("x.npy", NpyFloats("(2, 1, 2)", {1, 2, 3, 4})));
  spec_.mutable_npy()->set_target_file(Write(
      "y.npy", Npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", "\x05\x09", 2)));
  const auto data = Load(TargetKind::kClass);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT((*data)->feature_shape(), ElementsAre(1, 2));
  EXPECT_EQ((*data)->num_classes(), 10);
  spec_.mutable_npy()->set_target_file(Write("z.npy", NpyFloats("(3,)", {1, 2, 3})));
  ExpectMalformed(Load().status(), "data/z.npy: has 3 targets, but data/x.npy has features of 2");
}

TEST_F(DatasetTest, RefusesHostileNpy) {
  const std::string good = NpyFloats("(2, 2)", {1, 2, 3, 4});
  const auto read = [&](absl::string_view contents) {
    return ReadNpy(Write("t.npy", contents), roots_).status();
  };
  const auto with_header = [&](absl::string_view header) { return read(Npy(header, "12345678")); };
  ASSERT_TRUE(read(good).ok());
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(read(absl::string_view(good).substr(0, size)).ok()) << size;
  }
  ExpectMalformed(read(good + "x"), "has more bytes");
  ExpectMalformed(read("\x93NUMPX" + good.substr(6)), "wrong magic number");
  ExpectMalformed(read("\x93NUMPY" + Bytes({4, 0, 0, 0})), "version 4");
  ExpectMalformed(read("\x93NUMPY" + Bytes({2, 0, 255, 255, 255, 255})), "header of 4294967295");
  ExpectMalformed(with_header("{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}"),
                  "big-endian");
  ExpectMalformed(with_header("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2)}"),
                  "Fortran order");
  ExpectMalformed(with_header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"), "|O");
  ExpectMalformed(with_header("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}"), "<c8");
  ExpectMalformed(with_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}"),
                  "structured");
  ExpectMalformed(with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}"),
                  "impossible shape");
  ExpectMalformed(
      with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}"),
      "impossible shape");
  ExpectMalformed(
      with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9223372036854775807)}"),
      "impossible shape");
  ExpectMalformed(
      with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}"),
      "ends in the array");
  ExpectMalformed(with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2L,)}"),
                  "no number");
  ExpectMalformed(with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2"), "header");
  ExpectMalformed(with_header("__import__('os')"), "header");
  ExpectMalformed(with_header(std::string(30000, '[')), "header");
}

TEST_F(DatasetTest, ReadsIdx) {
  const std::string images = Bytes({0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 255, 7, 8});
  const std::string labels = Bytes({0, 0, 8, 1, 0, 0, 0, 2, 4, 9});
  spec_.set_file(Write("images.gz", Gzip(images)));
  spec_.mutable_idx()->set_target_file(Write("labels", labels));
  const auto data = Load(TargetKind::kClass);
  ASSERT_TRUE(data.ok()) << data.status();
  const Examples all = (*data)->Get(torch::arange(2));
  EXPECT_TRUE(torch::equal(all.features, torch::tensor({0.f, 255.f, 7.f, 8.f}).view({2, 1, 2})));
  EXPECT_TRUE(torch::equal(all.targets, torch::tensor({int64_t{4}, int64_t{9}})));
}

TEST_F(DatasetTest, IdxValuesAreBigEndian) {
  const auto array = ReadIdx(Write("t", Bytes({0, 0, 11, 1, 0, 0, 0, 2, 1, 2, 255, 254})), roots_);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_TRUE(torch::equal(array->to(torch::kLong), torch::tensor({int64_t{258}, int64_t{-2}})));
}

TEST_F(DatasetTest, RefusesHostileIdx) {
  const auto read = [&](const std::string& contents) {
    return ReadIdx(Write("t", contents), roots_).status();
  };
  ExpectMalformed(read(Bytes({1, 0, 8, 1, 0, 0, 0, 1, 1})), "wrong magic number");
  ExpectMalformed(read(Bytes({0, 0, 7, 1, 0, 0, 0, 1, 1})), "idx type 7");
  ExpectMalformed(read(Bytes({0, 0, 8, 1, 0, 0, 0, 2, 1})), "ends in the array: 1 bytes of 2");
  ExpectMalformed(read(Bytes({0, 0, 8, 1, 0, 0, 0, 1, 1, 1})), "has more bytes");
  ExpectMalformed(read(Bytes({0, 0, 8, 2, 0, 0, 0, 1})), "ends in the dimensions");
  ExpectMalformed(read(Bytes({0, 0, 8, 1, -1, -1, -1, -1, 1})), "1 bytes of 4294967295");
  ExpectMalformed(read(Bytes({0, 0, 8})), "ends in the magic number");
  std::string deep = Bytes({0, 0, 8, -1});
  deep.append(255 * 4, '\xff');
  ExpectMalformed(read(deep), "impossible shape");
}

TEST_F(DatasetTest, ReadsSafetensorsByName) {
  const std::filesystem::path path = folder_ / "t.safetensors";
  ASSERT_TRUE(WriteSafetensors(path, {{"x", torch::tensor({{1, 2}, {3, 4}}, torch::kBFloat16)},
                                      {"targets", torch::tensor({0.0, 2.0}, torch::kDouble)}})
                  .ok());
  spec_.set_file("data/t.safetensors");
  spec_.mutable_safetensors();
  EXPECT_EQ(Load().status().message(),
            "data/t.safetensors: has no tensor \"features\", it has targets, x");
  spec_.mutable_safetensors()->set_features("x");
  const auto data = Load(TargetKind::kClass);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_TRUE(torch::equal(All(**data), torch::tensor({{1.f, 2.f}, {3.f, 4.f}})));
  EXPECT_EQ((*data)->num_classes(), 3);
}

TEST_F(DatasetTest, RefusesBadTargetsAndValues) {
  const auto load = [&](const at::Tensor& x, const at::Tensor& y, TargetKind kind) {
    std::filesystem::remove(folder_ / "t.safetensors");
    EXPECT_TRUE(
        WriteSafetensors(folder_ / "t.safetensors", {{"features", x}, {"targets", y}}).ok());
    spec_.set_file("data/t.safetensors");
    spec_.mutable_safetensors();
    return Load(kind).status();
  };
  const at::Tensor x = torch::ones({3, 2});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(load(x, torch::tensor({0., 1., 2.}), TargetKind::kClass).ok());
  ExpectMalformed(load(x, torch::tensor({0., 1.5, 2.}), TargetKind::kClass),
                  "target 1.5 of sample 1 is no class number");
  ExpectMalformed(load(x, torch::tensor({0., 1., nan}), TargetKind::kClass), "of sample 2");
  ExpectMalformed(load(x, torch::tensor({-1, 1, 2}), TargetKind::kClass), "target -1 of sample 0");
  EXPECT_TRUE(load(x, torch::tensor({-100, 1, 2}), TargetKind::kClass).ok());
  ExpectMalformed(load(x, torch::zeros({3, 2}), TargetKind::kClass), "one class number");
  ExpectMalformed(load(x, torch::tensor({0., 1., nan}), TargetKind::kNumber), "not finite");
  ExpectMalformed(load(x * nan, torch::zeros({3}), TargetKind::kNumber), "not finite");
  ExpectMalformed(load(x, torch::zeros({2}), TargetKind::kNumber), "has 2 targets");
  ExpectMalformed(load(x, torch::tensor(1.0), TargetKind::kNumber), "no samples");
  ExpectMalformed(load(torch::zeros({0, 2}), torch::zeros({0}), TargetKind::kNumber), "no samples");
}

TEST_F(DatasetTest, BytesAreWindows) {
  spec_.set_file(Write("t.txt", "abcdefgh"));
  spec_.mutable_bytes()->set_sequence_length(3);
  auto data = Load(TargetKind::kNextToken);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->size(), 2);
  EXPECT_EQ((*data)->num_classes(), 'h' + 1);
  const Examples all = (*data)->Get(torch::arange(2));
  EXPECT_TRUE(torch::equal(all.features,
                           torch::tensor({97, 98, 99, 100, 101, 102}, torch::kLong).view({2, 3})));
  EXPECT_TRUE(torch::equal(all.targets, all.features + 1));

  spec_.mutable_bytes()->set_stride(2);
  data = Load(TargetKind::kNextToken);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->size(), 3);
  EXPECT_EQ((*data)->Get(torch::tensor({int64_t{2}})).targets[0][2].item<int64_t>(), 'h');

  spec_.mutable_bytes()->set_sequence_length(7);
  EXPECT_TRUE(Load(TargetKind::kNextToken).ok());
  spec_.mutable_bytes()->set_sequence_length(8);
  ExpectMalformed(Load(TargetKind::kNextToken).status(), "has 8 bytes");
  EXPECT_EQ(Load(TargetKind::kClass).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(DatasetTest, SplitPartsAreDisjointAndComplete) {
  accel::v1::DataSpec spec;
  spec.mutable_train()->set_file(Write("t.csv", "0,0\n1,1\n2,2\n3,3\n4,4\n5,5\n6,6\n"));
  spec.mutable_train()->mutable_csv();
  spec.mutable_split()->set_evaluation_fraction(0.3);
  const auto data = LoadTrainingData(spec, TargetKind::kNumber, roots_);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train->size(), 5);
  EXPECT_EQ(data->evaluation->size(), 2);
  const at::Tensor all = torch::cat({All(*data->train), All(*data->evaluation)}).view({-1});
  EXPECT_TRUE(torch::equal(std::get<0>(all.sort()), torch::arange(7).to(torch::kFloat)));
  spec.mutable_split()->set_evaluation_fraction(0.1);
  EXPECT_EQ(LoadTrainingData(spec, TargetKind::kNumber, roots_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(DatasetTest, EvaluationDataMustHaveTheSameShape) {
  accel::v1::DataSpec spec;
  spec.mutable_train()->set_file(Write("t.csv", "0,0\n"));
  spec.mutable_train()->mutable_csv();
  spec.mutable_evaluation()->set_file(Write("e.csv", "0,0,1\n"));
  spec.mutable_evaluation()->mutable_csv();
  EXPECT_EQ(LoadTrainingData(spec, TargetKind::kNumber, roots_).status().message(),
            "data.evaluation has features of shape [2], data.train of [1]");
}

}  // namespace
}  // namespace accel::engine
