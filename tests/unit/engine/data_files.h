#ifndef ACCEL_TESTS_UNIT_ENGINE_DATA_FILES_H_
#define ACCEL_TESTS_UNIT_ENGINE_DATA_FILES_H_

#include <gtest/gtest.h>
#include <stdlib.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "core/base/errors.h"
#include "core/engine/data/data_roots.h"
#include "google/rpc/error_details.pb.h"

namespace accel::engine {

// A folder that is the data root `data`; removed afterwards.
class DataFilesTest : public testing::Test {
 protected:
  DataFilesTest() {
    std::string pattern = testing::TempDir() + "accel_data_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    roots_["data"] = folder_;
  }
  ~DataFilesTest() override { std::filesystem::remove_all(folder_); }

  // Returns the file's name below the root: `data/<name>`.
  std::string Write(const std::string& name, absl::string_view contents) {
    std::ofstream(folder_ / name, std::ios::binary) << contents;
    return "data/" + name;
  }

  // One gzip member.
  static std::string Gzip(absl::string_view contents) {
    z_stream stream{};
    EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    std::string out(deflateBound(&stream, contents.size()), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(contents.data()));
    stream.avail_in = static_cast<uInt>(contents.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
  }

  std::filesystem::path folder_;
  DataRoots roots_;
};

// Reason of a status's ErrorInfo; empty without one.
inline std::string ReasonOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kErrorInfoTypeUrl);
  google::rpc::ErrorInfo info;
  if (!payload.has_value() || !info.ParseFromString(std::string(*payload))) return "";
  return info.reason();
}

// Expects MALFORMED_DATA with `part` in the message.
inline void ExpectMalformed(const absl::Status& status, absl::string_view part) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(ReasonOf(status), "MALFORMED_DATA") << status;
  EXPECT_TRUE(absl::StrContains(status.message(), part)) << status << "\nexpected: " << part;
}

}  // namespace accel::engine

#endif  // ACCEL_TESTS_UNIT_ENGINE_DATA_FILES_H_
