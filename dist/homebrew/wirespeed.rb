# For Homebrew on Linux. A tap fills in the address and the checksum of a release's source archive.
class Wirespeed < Formula
  desc "TCP/IP stack in user space: router, gateway for machines, tools"
  homepage "https://example.org/wirespeed"
  url "https://example.org/wirespeed/archive/v0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on "rust" => :build
  depends_on :linux

  def install
    system "cargo", "install", "--profile", "dist", *std_cargo_args(path: "crates/top/cli")
    system bin/"wirespeed", "man", "--dir", man1.tap(&:mkpath)
    generate_completions_from_executable(bin/"wirespeed", "completions")
    pkgshare.install "examples/router.toml", "dist/wirespeed.service"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/wirespeed --version")
    assert_match "goodput", shell_output("#{bin}/wirespeed ttcp --file #{bin}/wirespeed")
  end
end
