#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "core/engine/checkpoint/checkpointer.h"
#include "core/engine/checkpoint/manifest.h"
#include "tests/unit/engine/ranks.h"

namespace accel::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "accel-checkpoint-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override { fs::remove_all(folder_); }

  static void Write(const fs::path& path, const std::string& contents) {
    std::ofstream(path, std::ios::binary) << contents;
  }

  // Names of everything in a folder.
  static std::set<std::string> Names(const fs::path& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
      names.insert(entry.path().filename());
    }
    return names;
  }

  Checkpointer Make(Communicator& communicator, std::optional<int32_t> limit = std::nullopt,
                    int64_t next = 0) {
    auto made = Checkpointer::Create(FileSystem::Real(), folder_, next, limit, communicator);
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }

  fs::path folder_;
};

TEST_F(CheckpointTest, DigestIsSha256) {
  Write(folder_ / "a", "abc");
  EXPECT_EQ(*FileSha256(folder_ / "a"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(FileSha256(folder_ / "none").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CheckpointTest, ManifestFindsEveryChange) {
  Write(folder_ / "a", "some bytes");
  Write(folder_ / "b", std::string(3 << 20, 'x'));
  EXPECT_EQ(VerifyManifest(FileSystem::Real(), folder_).status().code(),
            absl::StatusCode::kNotFound);
  Manifest manifest;
  manifest.step = 7;
  manifest.epoch = 2;
  auto bytes = WriteManifest(FileSystem::Real(), folder_, manifest);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes,
            10 + (3 << 20) + static_cast<int64_t>(fs::file_size(folder_ / "manifest.json")));
  auto verified = VerifyManifest(FileSystem::Real(), folder_);
  ASSERT_TRUE(verified.ok());
  EXPECT_EQ(verified->step, 7);
  EXPECT_EQ(verified->epoch, 2);
  ASSERT_EQ(verified->files.size(), 2);
  EXPECT_EQ(verified->files[0].path, "a");

  const auto problem = [&] { return VerifyManifest(FileSystem::Real(), folder_).status(); };
  Write(folder_ / "a", "some bytez");
  EXPECT_EQ(problem().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(problem().message(), HasSubstr("/a has sha-256"));
  Write(folder_ / "a", "some byte");
  EXPECT_THAT(problem().message(), HasSubstr("/a has 9 bytes, its manifest says 10"));
  fs::remove(folder_ / "a");
  EXPECT_THAT(problem().message(), HasSubstr("/a is missing"));
  Write(folder_ / "manifest.json", "{\"format\": \"accel.checkpoint\", \"version\": 2}");
  EXPECT_THAT(problem().message(), HasSubstr("version is 2, allowed is 1"));
  Write(folder_ / "manifest.json", "{\"format\": \"accel.ch");
  EXPECT_EQ(problem().code(), absl::StatusCode::kDataLoss);
}

TEST_F(CheckpointTest, AllRanksWriteAndTheFolderAppearsComplete) {
  RunRanks(2, [&](Communicator& communicator) {
    Checkpointer checkpointer = Make(communicator, std::nullopt, 5);
    const std::string name = absl::StrCat("part_", communicator.rank());
    auto result = checkpointer.Save(12, 3, [&](const fs::path& staging) {
      EXPECT_THAT(ListCheckpoints(folder_), IsEmpty());
      Write(staging / name, name);
      return absl::OkStatus();
    });
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->number, 5);
    EXPECT_EQ(result->bytes > 12, communicator.rank() == 0);
  });
  EXPECT_THAT(Names(folder_), ElementsAre("5"));
  EXPECT_THAT(Names(folder_ / "5"), ElementsAre("manifest.json", "part_0", "part_1"));
  EXPECT_EQ(VerifyManifest(FileSystem::Real(), folder_ / "5")->step, 12);
}

TEST_F(CheckpointTest, OneRanksFailureIsAllRanksAndLeavesNothing) {
  RunRanks(2, [&](Communicator& communicator) {
    Checkpointer checkpointer = Make(communicator);
    const auto save = [&](bool fail) {
      return checkpointer
          .Save(1, 0,
                [&](const fs::path& staging) -> absl::Status {
                  Write(staging / absl::StrCat(communicator.rank()), "x");
                  if (fail && communicator.rank() == 1) return absl::ResourceExhaustedError("full");
                  return absl::OkStatus();
                })
          .status();
    };
    EXPECT_EQ(save(true).code(), communicator.rank() == 1 ? absl::StatusCode::kResourceExhausted
                                                          : absl::StatusCode::kAborted);
    communicator.Barrier();
    EXPECT_THAT(Names(folder_), IsEmpty());
    communicator.Barrier();
    EXPECT_TRUE(save(false).ok());
  });
  EXPECT_THAT(Names(folder_), ElementsAre("0"));
}

TEST_F(CheckpointTest, WhatOneMachineHasPublishedGoesWhereAnotherCannot) {
  auto starts = MakeStarts(2);
  for (auto& start : starts) start.set_local_world_size(1);
  const auto machine = [&](int rank) { return folder_ / absl::StrCat("machine_", rank); };
  for (const int number : {1, 2}) fs::create_directories(machine(0) / absl::StrCat(number));
  // Number 3 is taken on machine 1.
  fs::create_directories(machine(1) / "3");
  RunRanks(starts, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    auto checkpointer = Checkpointer::Create(FileSystem::Real(), machine(rank), 3, 2, communicator);
    ASSERT_TRUE(checkpointer.ok()) << checkpointer.status();
    const auto save = [&] {
      return checkpointer->Save(1, 0, [](const fs::path& staging) {
        Write(staging / "x", "x");
        return absl::OkStatus();
      });
    };
    EXPECT_FALSE(save().ok());
    communicator.Barrier();
    if (rank == 0) {
      EXPECT_THAT(Names(machine(0)), ElementsAre("1", "2"));
      fs::remove(machine(1) / "3");
    }
    communicator.Barrier();
    const auto second = save();
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(second->number, 3);
    EXPECT_GT(second->bytes, 0);
  });
  EXPECT_THAT(Names(machine(0)), ElementsAre("2", "3"));
  EXPECT_THAT(Names(machine(1)), ElementsAre("3"));
}

TEST_F(CheckpointTest, KeepsTheNewestAndSaysWhatWent) {
  RunRanks(1, [&](Communicator& communicator) {
    Checkpointer checkpointer = Make(communicator, 2, 9);
    std::vector<std::vector<int64_t>> removed;
    for (int i = 0; i < 4; ++i) {
      auto result = checkpointer.Save(i, 0, [](const fs::path& staging) {
        Write(staging / "x", "x");
        return absl::OkStatus();
      });
      ASSERT_TRUE(result.ok());
      EXPECT_TRUE(result->removal.ok());
      removed.push_back(result->removed);
    }
    EXPECT_THAT(removed, ElementsAre(IsEmpty(), IsEmpty(), ElementsAre(9), ElementsAre(10)));
  });
  EXPECT_THAT(ListCheckpoints(folder_), ElementsAre(11, 12));
  EXPECT_EQ(Names(folder_).size(), 2);
}

TEST_F(CheckpointTest, StartsByRemovingInterruptedOnes) {
  fs::create_directories(folder_ / ".3.incomplete");
  fs::create_directories(folder_ / "2");
  RunRanks(1, [&](Communicator& communicator) { Make(communicator); });
  EXPECT_THAT(Names(folder_), ElementsAre("2"));
}

TEST_F(CheckpointTest, NeverReplacesACompleteOne) {
  fs::create_directories(folder_ / "0");
  RunRanks(1, [&](Communicator& communicator) {
    Checkpointer checkpointer = Make(communicator);
    EXPECT_FALSE(checkpointer.Save(1, 0, [](const fs::path&) { return absl::OkStatus(); }).ok());
  });
  EXPECT_THAT(Names(folder_), ElementsAre("0"));
}

}  // namespace
}  // namespace accel::engine
