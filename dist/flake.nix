# The program for Nix: nix build 'git+file:///PATH/OF/THE/CHECKOUT?dir=dist', or by the repository's URL.
# The units are for other systems: services.wirespeed of a NixOS machine would be a module, which is
# not written.
{
  description = "TCP/IP stack in user space: router, gateway for machines, tools";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
    in
    {
      packages = each (pkgs: {
        default = pkgs.rustPlatform.buildRustPackage {
          pname = "wirespeed";
          version = (nixpkgs.lib.importTOML ../Cargo.toml).workspace.package.version;
          src = ../.;
          cargoLock.lockFile = ../Cargo.lock;
          cargoBuildFlags = [
            "--package"
            "wirespeed-cli"
          ];
          buildType = "dist";
          WIRESPEED_COMMIT = self.shortRev or "dirty";
          # Tests need namespaces, devices and other programs: cargo xtask test.
          doCheck = false;
          # The profiler reads the line tables.
          dontStrip = true;
          nativeBuildInputs = [ pkgs.installShellFiles ];
          postInstall = ''
            mkdir -p $out/share/man/man1
            $out/bin/wirespeed man --dir $out/share/man/man1
            for shell in bash fish zsh; do
              $out/bin/wirespeed completions $shell > wirespeed.$shell
            done
            installShellCompletion wirespeed.{bash,fish} --zsh --name _wirespeed wirespeed.zsh
          '';
          meta = {
            description = "TCP/IP stack in user space: router, gateway for machines, tools";
            license = with nixpkgs.lib.licenses; [
              mit
              asl20
            ];
            mainProgram = "wirespeed";
            platforms = systems;
          };
        };
      });
    };
}
