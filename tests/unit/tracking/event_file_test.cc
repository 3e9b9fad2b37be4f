#include "core/tracking/event_file.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/escaping.h"
#include "core/tracking/crc32c.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace accel::tracking {
namespace {

namespace fs = std::filesystem;
using accel::internal::v1::tensorboard::Event;

// The examples of RFC 3720, appendix B.4.
TEST(Crc32cTest, MatchesPublishedValues) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
}

// Records that the tensorboard package reads.
TEST(EventFileTest, FramesAsKnownRecords) {
  Event version;
  version.set_wall_time(1.0);
  version.set_file_version("brain.Event:2");
  EXPECT_EQ(absl::BytesToHexString(FrameEvent(version)),
            "1800000000000000a37f4b2209000000000000f03f1a0d627261696e2e4576656e743a3286bf577a");
  Event scalar;
  scalar.set_wall_time(2.0);
  scalar.set_step(7);
  auto* value = scalar.mutable_summary()->add_value();
  value->set_tag("loss");
  value->set_simple_value(0.5);
  EXPECT_EQ(absl::BytesToHexString(FrameEvent(scalar)),
            "1a00000000000000129bd82d090000000000000040"
            "10072a0d0a0b0a046c6f7373150000003fc33fc24a");
}

class EventFileFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "accel_events_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string Contents(const fs::path& path) {
    std::ostringstream contents;
    contents << std::ifstream(path, std::ios::binary).rdbuf();
    return contents.str();
  }

  fs::path folder_;
};

TEST_F(EventFileFolderTest, LaterFilesSortLaterWhateverTheClockSays) {
  std::vector<std::string> names;
  for (const int64_t seconds : {1700000000, 1700000000, 1600000000, 1800000000}) {
    auto file = EventFile::Create(folder_ / "a" / "b", ".suffix", absl::FromUnixSeconds(seconds));
    ASSERT_TRUE(file.ok()) << file.status();
    names.push_back(file->path().filename().string());
    EXPECT_TRUE(fs::exists(file->path()));
  }
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  EXPECT_THAT(names[0],
              ::testing::MatchesRegex(
                  "events\\.out\\.tfevents\\.1700000000\\..+\\.[0-9]+\\.[0-9]+\\.suffix"));
  EXPECT_THAT(names[3], ::testing::HasSubstr("tfevents.1800000000."));
}

TEST_F(EventFileFolderTest, UncreatableFolderIsAnError) {
  std::ofstream(folder_ / "file") << "x";
  EXPECT_FALSE(EventFile::Create(folder_ / "file" / "run", "", absl::Now()).ok());
}

TEST_F(EventFileFolderTest, AppendsWhatWasAddedAndNothingElse) {
  auto file = *EventFile::Create(folder_, "", absl::FromUnixSeconds(1));
  const std::string start = Contents(file.path());
  Event event;
  event.set_step(3);
  file.Add(event);
  EXPECT_EQ(Contents(file.path()), start);
  ASSERT_TRUE(file.Flush().ok());
  ASSERT_TRUE(file.Flush().ok());
  EXPECT_EQ(Contents(file.path()), start + FrameEvent(event));
  EXPECT_TRUE(file.Sync().ok());
  fs::remove(file.path());
  file.Add(event);
  EXPECT_EQ(file.Flush().code(), absl::StatusCode::kNotFound);
}

// A limit on the size of files makes the write stop in the middle, as a full disk does. The limit
// cannot be taken back, so a child has it.
TEST_F(EventFileFolderTest, CutsBackAfterPartialWrite) {
  auto file = *EventFile::Create(folder_, "", absl::FromUnixSeconds(1));
  const std::string start = Contents(file.path());
  Event large;
  large.mutable_summary()->add_value()->set_tag(std::string(5000, 't'));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
    file.Add(large);
    if (file.Flush().code() != absl::StatusCode::kResourceExhausted) _exit(3);
    if (Contents(file.path()) != start) _exit(4);
    Event small;
    small.set_step(1);
    file.Add(small);
    if (!file.Flush().ok()) _exit(5);
    _exit(Contents(file.path()) == start + FrameEvent(small) ? 0 : 6);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace accel::tracking
