#include "core/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace accel {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FilesTest : public testing::Test {
 protected:
  FilesTest() {
    std::string name = (fs::temp_directory_path() / "accel_files_XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~FilesTest() override { fs::remove_all(root_); }

  static mode_t Mode(const fs::path& path) {
    struct stat info {};
    EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 0777;
  }

  FileSystem& files_ = FileSystem::Real();
  fs::path root_;
};

TEST_F(FilesTest, WriteDurablyReplacesAndLeavesNothingBeside) {
  const fs::path path = root_ / "file";
  const std::string contents(100000, '\0');
  ASSERT_TRUE(files_.WriteDurably(path, "old").ok());
  ASSERT_TRUE(files_.WriteDurably(path, contents).ok());
  EXPECT_EQ(*files_.Read(path), contents);
  EXPECT_EQ(Mode(path), 0600u);
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), 1);
}

TEST_F(FilesTest, WriteDurablyTakesANameInTheCurrentFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(root_);
  EXPECT_TRUE(files_.WriteDurably("bare", "x").ok());
  fs::current_path(before);
  EXPECT_EQ(*files_.Read(root_ / "bare"), "x");
}

TEST_F(FilesTest, FailedWriteNamesThePathAndLeavesTheTarget) {
  const absl::Status missing = files_.WriteDurably(root_ / "no/file", "x");
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_THAT(std::string(missing.message()), HasSubstr((root_ / "no/file").string()));

  fs::create_directories(root_ / "folder" / "inner");
  EXPECT_FALSE(files_.WriteDurably(root_ / "folder", "x").ok());
  EXPECT_TRUE(fs::is_directory(root_ / "folder" / "inner"));
  EXPECT_FALSE(fs::exists(root_ / "folder.new"));
}

TEST_F(FilesTest, ReadTellsMissingFilesAndFolders) {
  EXPECT_TRUE(absl::IsNotFound(files_.Read(root_ / "missing").status()));
  EXPECT_FALSE(files_.Read(root_).ok());
  ASSERT_TRUE(files_.WriteDurably(root_ / "empty", "").ok());
  EXPECT_EQ(*files_.Read(root_ / "empty"), "");
}

TEST_F(FilesTest, PublishMovesAWholeFolder) {
  fs::create_directories(root_ / "staging" / "inner");
  ASSERT_TRUE(files_.WriteDurably(root_ / "staging/inner/file", "x").ok());
  ASSERT_TRUE(files_.PublishDirectory(root_ / "staging", root_ / "target").ok());
  EXPECT_FALSE(fs::exists(root_ / "staging"));
  EXPECT_EQ(*files_.Read(root_ / "target/inner/file"), "x");
}

TEST_F(FilesTest, PublishNeverReplaces) {
  fs::create_directory(root_ / "staging");
  fs::create_directory(root_ / "target");
  EXPECT_TRUE(absl::IsAlreadyExists(files_.PublishDirectory(root_ / "staging", root_ / "target")));
  EXPECT_TRUE(fs::exists(root_ / "staging"));
  EXPECT_TRUE(absl::IsNotFound(files_.PublishDirectory(root_ / "missing", root_ / "other")));
  EXPECT_FALSE(fs::exists(root_ / "other"));
}

class OpenBeneathTest : public FilesTest {
 protected:
  OpenBeneathTest() {
    fs::create_directories(root_ / "data/sub");
    EXPECT_TRUE(files_.WriteDurably(root_ / "secret", "s").ok());
    EXPECT_TRUE(files_.WriteDurably(root_ / "data/sub/file", "f").ok());
  }
  absl::StatusCode Open(absl::string_view path) {
    return OpenBeneath(root_ / "data", path).status().code();
  }
};

TEST_F(OpenBeneathTest, OpensBelowTheRoot) {
  auto fd = OpenBeneath(root_ / "data", "sub/file");
  ASSERT_TRUE(fd.ok()) << fd.status();
  char byte;
  EXPECT_EQ(read(fd->get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'f');
  EXPECT_NE(fcntl(fd->get(), F_GETFD) & FD_CLOEXEC, 0);
  fs::create_symlink("sub/file", root_ / "data/inside");
  EXPECT_EQ(Open("inside"), absl::StatusCode::kOk);
  EXPECT_EQ(Open("missing"), absl::StatusCode::kNotFound);
}

TEST_F(OpenBeneathTest, NothingLeavesTheRoot) {
  fs::create_symlink("../secret", root_ / "data/relative");
  fs::create_symlink(root_ / "secret", root_ / "data/absolute");
  fs::create_directory_symlink(root_, root_ / "data/up");
  for (const char* path : {"../secret", "sub/../../secret", "relative", "absolute", "up/secret"}) {
    EXPECT_EQ(Open(path), absl::StatusCode::kInvalidArgument) << path;
  }
  EXPECT_EQ(Open((root_ / "data/sub/file").string()), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Open(absl::string_view("sub/file\0x", 10)), absl::StatusCode::kInvalidArgument);
}

TEST_F(OpenBeneathTest, FifoDoesNotBlock) {
  ASSERT_EQ(mkfifo((root_ / "data/fifo").c_str(), 0600), 0);
  EXPECT_EQ(Open("fifo"), absl::StatusCode::kOk);
}

TEST_F(FilesTest, PrivateDirectoriesAreOwnerOnly) {
  ASSERT_TRUE(CreatePrivateDirectories(root_ / "a/b").ok());
  EXPECT_EQ(Mode(root_ / "a"), 0700u);
  EXPECT_EQ(Mode(root_ / "a/b"), 0700u);
  EXPECT_TRUE(CreatePrivateDirectories(root_ / "a/b").ok());
  EXPECT_TRUE(CreatePrivateDirectories(root_ / "a/c/").ok());
}

TEST_F(FilesTest, FileInAPrivateDirectorysPlaceIsAnError) {
  ASSERT_TRUE(files_.WriteDurably(root_ / "file", "x").ok());
  EXPECT_TRUE(absl::IsAlreadyExists(CreatePrivateDirectories(root_ / "file")));
  EXPECT_FALSE(CreatePrivateDirectories(root_ / "file/below").ok());
}

TEST(ErrnoStatusTest, CarriesCodePathAndText) {
  const absl::Status status = ErrnoStatus("cannot write", "/a/b", ENOSPC);
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_EQ(status.message(), "cannot write /a/b: No space left on device");
}

}  // namespace
}  // namespace accel
