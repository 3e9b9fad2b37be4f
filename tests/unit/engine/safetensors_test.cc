#include "core/engine/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "tests/unit/engine/data_files.h"

namespace accel::engine {
namespace {

std::string File(absl::string_view header, absl::string_view data) {
  const uint64_t size = header.size();
  std::string file(sizeof(size), '\0');
  std::memcpy(file.data(), &size, sizeof(size));
  return absl::StrCat(file, header, data);
}

class SafetensorsTest : public DataFilesTest {
 protected:
  absl::Status Open(const std::string& contents) {
    ACCEL_ASSIGN_OR_RETURN(Fd fd, OpenDataFile(Write("t.safetensors", contents), roots_));
    return SafetensorsReader::Open(std::move(fd), "t.safetensors").status();
  }
};

TEST_F(SafetensorsTest, RoundTripKeepsTypesShapesAndValues) {
  NamedTensors tensors;
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong,
                                    at::kInt, at::kShort, at::kChar, at::kByte, at::kBool}) {
    tensors.emplace_back(absl::StrCat("t.", c10::toString(type)),
                         torch::arange(6).remainder(2).view({2, 3}).to(type));
  }
  tensors.emplace_back("scalar", torch::tensor(2.5));
  tensors.emplace_back("empty", torch::empty({0, 3}));
  tensors.emplace_back("strided", torch::arange(6).view({2, 3}).t());
  tensors.emplace_back("quote\" and \xc3\xa9", torch::ones({1}));
  const std::filesystem::path path = folder_ / "out.safetensors";
  ASSERT_TRUE(WriteSafetensors(path, tensors).ok());
  const auto read = ReadSafetensors(path);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), tensors.size());
  const std::map<std::string, at::Tensor> by_name(read->begin(), read->end());
  for (const auto& [name, tensor] : tensors) {
    ASSERT_EQ(by_name.count(name), 1u) << name;
    EXPECT_EQ(by_name.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(torch::equal(by_name.at(name), tensor)) << name;
  }
}

TEST_F(SafetensorsTest, WritesTheKnownBytes) {
  const std::filesystem::path path = folder_ / "out.safetensors";
  ASSERT_TRUE(WriteSafetensors(
                  path, {{"b", torch::tensor({1, 2}, torch::kByte)}, {"a", torch::tensor({1.0f})}})
                  .ok());
  std::ifstream stream(path, std::ios::binary);
  const std::string written((std::istreambuf_iterator<char>(stream)), {});
  std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
      R"("b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(written, File(header, absl::string_view("\0\0\x80\x3f\1\2", 6)));
}

TEST_F(SafetensorsTest, WriterRefusesWhatItCannotWrite) {
  const at::Tensor one = torch::ones({1});
  EXPECT_EQ(WriteSafetensors(folder_ / "a", {{"x", one}, {"x", one}}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteSafetensors(folder_ / "a", {{"x", torch::ones({1}, torch::kComplexFloat)}}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a"));
  EXPECT_TRUE(WriteSafetensors(folder_ / "a", {{"x", one}}).ok());
  EXPECT_EQ(WriteSafetensors(folder_ / "a", {{"x", one}}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(WriteSafetensors(folder_ / "none" / "a", {{"x", one}}).code(),
            absl::StatusCode::kNotFound);
}

TEST_F(SafetensorsTest, EveryTruncationIsRefused) {
  const std::string good =
      File(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "12345678");
  ASSERT_TRUE(Open(good).ok());
  for (size_t size = 0; size < good.size(); ++size) {
    ExpectMalformed(Open(good.substr(0, size)), "");
  }
  ExpectMalformed(Open(good + "9"), "tensors of 8 bytes lie in 9");
}

TEST_F(SafetensorsTest, RefusesHostileHeaders) {
  const auto open = [&](absl::string_view header, absl::string_view data = "12345678") {
    return Open(File(header, data));
  };
  const auto entry = [&](absl::string_view fields) {
    return open(absl::StrCat("{\"a\":{", fields, "}}"));
  };
  ExpectMalformed(Open(std::string(8, '\xff') + "{}"), "header of 18446744073709551615 bytes");
  ExpectMalformed(open("[]"), "no JSON object");
  ExpectMalformed(open("{"), "no JSON object");
  ExpectMalformed(open(std::string(100000, '[')), "no JSON object");
  ExpectMalformed(open(R"({"a":1})"), "needs dtype, shape and data_offsets");
  ExpectMalformed(entry(R"("dtype":"F32","shape":[2])"), "needs dtype");
  ExpectMalformed(entry(R"("dtype":"F31","shape":[2],"data_offsets":[0,8])"), "has dtype");
  ExpectMalformed(entry(R"("dtype":7,"shape":[2],"data_offsets":[0,8])"), "has dtype");
  ExpectMalformed(entry(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), "has a shape");
  ExpectMalformed(entry(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), "has a shape");
  ExpectMalformed(entry(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), "data_offsets");
  ExpectMalformed(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,9])"), "within 8 bytes");
  ExpectMalformed(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615])"),
                  "data_offsets");
  ExpectMalformed(entry(R"("dtype":"F32","shape":[2],"data_offsets":[-8,0])"), "data_offsets");
  ExpectMalformed(entry(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), "has 8 bytes");
  ExpectMalformed(entry(R"("dtype":"F32","shape":[4611686018427387906],"data_offsets":[0,8])"),
                  "has 8 bytes");
  ExpectMalformed(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1)"), "nothing else");
  ExpectMalformed(
      open(R"({"__metadata__":{"a":1},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
      "__metadata__");
}

TEST_F(SafetensorsTest, RefusesOverlapsGapsAndEqualNames) {
  const auto open = [&](absl::string_view a, absl::string_view b, absl::string_view second = "b") {
    return Open(
        File(absl::StrCat(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[)", a, R"(]},")",
                          second, R"(":{"dtype":"F32","shape":[1],"data_offsets":[)", b, "]}}"),
             "12345678"));
  };
  EXPECT_TRUE(open("0,4", "4,8").ok());
  EXPECT_TRUE(open("4,8", "0,4").ok());
  ExpectMalformed(open("0,4", "0,4"), "begins at 0, the one before it ends at 4");
  ExpectMalformed(open("0,4", "2,6"), "begins at 2");
  ExpectMalformed(open("0,4", "4,8", "a"), "name \"a\" comes twice");
  ExpectMalformed(
      Open(File(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "12345678")),
      "begins at 4");
}

}  // namespace
}  // namespace accel::engine
