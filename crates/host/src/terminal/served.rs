//! What others may ask for.

use cellgate_core::terminal::Message;

use super::disk::{DiskLen, Kind, PathBelow, Root};
use super::place::Place;
use super::session::Next;
use super::tree::Tree;

/// A directory that others may read, and write to if it is writable.
#[derive(Clone, Debug)]
pub struct Served {
    pub root: Root,
    pub is_writable: bool,
}

impl Served {
    /// What is done for `message`, or why not; nothing if nothing is asked.
    pub(super) fn asked(
        &self,
        message: &Message,
        disk_len: DiskLen,
    ) -> Option<Result<Next, String>> {
        Some(match message {
            Message::Put { manner, path } => {
                if self.is_writable {
                    Place::new(&self.root, path, *manner, disk_len).map(Next::Take)
                } else {
                    Err("nothing may be put here: --writable allows it".to_owned())
                }
            }
            Message::Get { path } => self.tree(path, disk_len).map(give),
            Message::List { path } => self.listed(path, disk_len).map(give),
            _ => return None,
        })
    }

    /// What is called so, with all that is in it; all there is for an empty path.
    fn tree(&self, path: &[u8], disk_len: DiskLen) -> Result<Tree, String> {
        match self.named(path)? {
            None => Tree::whole(&self.root, disk_len).map_err(|error| error.to_string()),
            Some((path, _)) => Tree::new(vec![(self.root.clone(), path)], disk_len, true),
        }
    }

    /// The entries of a directory, or what is no directory itself.
    fn listed(&self, path: &[u8], disk_len: DiskLen) -> Result<Tree, String> {
        let directory = match self.named(path)? {
            None => None,
            Some((path, Kind::Directory)) => Some(path),
            Some((path, _)) => {
                return Tree::new(vec![(self.root.clone(), path)], disk_len, false);
            }
        };
        Tree::listing(&self.root, directory, disk_len).map_err(|error| error.to_string())
    }

    /// What is at a path; none for the root, which is empty.
    fn named(&self, path: &[u8]) -> Result<Option<(PathBelow, Kind)>, String> {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        if path.is_empty() {
            return Ok(None);
        }
        let path = PathBelow::new(path).map_err(|fault| fault.to_string())?;
        let found = self.root.stat(&path).map_err(|error| error.to_string())?;
        let found = found.ok_or_else(|| format!("{path} is not there"))?;
        Ok(Some((path, found.kind)))
    }
}

fn give(tree: Tree) -> Next {
    Next::Give(Box::new(tree))
}
