{
  description = "Lets an AI coding agent work through a change, story by story, while git keeps every step";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "x86_64-darwin" "aarch64-darwin" ];
      forAll = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
      manifest = (builtins.fromTOML (builtins.readFile ./Cargo.toml)).package;
    in
    {
      packages = forAll (pkgs: {
        default = pkgs.rustPlatform.buildRustPackage {
          pname = manifest.name;
          version = manifest.version;
          src = self;
          cargoLock.lockFile = ./Cargo.lock;
          nativeCheckInputs = [ pkgs.git ];
          # The suite wants a real terminal and a home directory, which a build sandbox does not have.
          cargoTestFlags = [ "--lib" ];
          postInstall = "$out/bin/git-ralph setup --prefix $out";
          meta = {
            description = manifest.description;
            license = with pkgs.lib.licenses; [ mit asl20 ];
            mainProgram = "git-ralph";
          };
        };
      });

      devShells = forAll (pkgs: {
        default = pkgs.mkShell { packages = with pkgs; [ cargo clippy git rustc rustfmt ]; };
      });
    };
}
